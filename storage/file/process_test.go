package file_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/file"
)

// childEnv holds the role, and childRoot the folder, of a process that the
// tests start: the test binary itself.
const (
	childEnv  = "STORAGE_FILE_CHILD"
	childRoot = "STORAGE_FILE_ROOT"
)

func TestMain(m *testing.M) {
	role := os.Getenv(childEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := runChild(role, os.Getenv(childRoot)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// raceNames is for how many names the processes race.
const raceNames = 100

// countEach is how often each process counts.
const countEach = 15

// runChild is a child's main. It says "ready", waits for a line or the end of
// its standard input, and then does what its role says.
func runChild(role, root string) error {
	d, err := file.New(root, &file.Options{NoSync: role != "acknowledge"})
	if err != nil {
		return err
	}
	b, ctx := storage.New(d, nil), context.Background()
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch role {
	case "absent":
		return childAbsent(ctx, b)
	case "count":
		return childCount(ctx, b)
	case "lock":
		if _, err := b.Lock(ctx, "locks/table"); err != nil {
			return lockedOrErr(err)
		}
		fmt.Println("locked")
		_, err := in.ReadString('\n') // holds it until killed, or told
		return err
	case "upload":
		up, err := b.Create(ctx, "pt=1/half", storage.Cond{})
		if err != nil {
			return err
		}
		if _, err := up.Write([]byte("half")); err != nil {
			return err
		}
		fmt.Println("written")
		_, err = in.ReadString('\n')
		return err
	case "acknowledge":
		return childAcknowledge(ctx, b)
	case "full":
		return childFull(ctx, b)
	}
	return fmt.Errorf("no such role: %s", role)
}

func lockedOrErr(err error) error {
	if errors.Is(err, storage.ErrLocked) {
		fmt.Println(err)
		return nil
	}
	return err
}

// content is what the process of that id puts: large enough to be torn.
func content(pid int) []byte { return bytes.Repeat([]byte(strconv.Itoa(pid)+"\n"), 2000) }

func childAbsent(ctx context.Context, b *storage.Bucket) error {
	for i := range raceNames {
		name := fmt.Sprintf("race/%d", i)
		_, err := b.PutIfAbsent(ctx, name, content(os.Getpid()))
		if err == nil {
			fmt.Println("won", name)
		} else if !errors.Is(err, storage.ErrExist) {
			return err
		}
	}
	return nil
}

func childCount(ctx context.Context, b *storage.Bucket) error {
	for range countEach {
		for {
			data, o, err := b.ReadVersion(ctx, "count", 100)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			_, err = b.PutIfMatch(ctx, "count", []byte(strconv.Itoa(n+1)), o.ETag)
			if err == nil {
				break
			}
			if !errors.Is(err, storage.ErrChanged) {
				return err
			}
		}
	}
	return nil
}

// childAcknowledge puts until it is killed, and says what is stored.
func childAcknowledge(ctx context.Context, b *storage.Bucket) error {
	for i := 0; ; i++ {
		name := fmt.Sprintf("pt=%d/o%d", i%3, i)
		if _, err := b.PutIfAbsent(ctx, name, content(os.Getpid())); err != nil {
			return err
		}
		fmt.Println(name)
	}
}

// fullBytes is where a file must end in the process that runs out of space.
const fullBytes = 100_000

// childFull writes more than it may: the system refuses in the middle of a
// write, as it does when the disk is full.
func childFull(ctx context.Context, b *storage.Bucket) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullBytes, Max: fullBytes}); err != nil {
		return err
	}
	_, putErr := b.Put(ctx, "f/put", make([]byte, fullBytes+1))
	up, err := b.Create(ctx, "f/upload", storage.Cond{})
	if err != nil {
		return err
	}
	var writeErr error
	for range 5 {
		_, err := up.Write(make([]byte, fullBytes/3))
		writeErr = errors.Join(writeErr, err)
	}
	_, commitErr := up.Commit()
	for what, err := range map[string]error{"put": putErr, "write": writeErr, "commit": commitErr} {
		fmt.Println(what, errors.Is(err, syscall.EFBIG))
	}
	_, err = b.Put(ctx, "f/small", []byte("small"))
	return err
}

// child is a started process.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err bytes.Buffer
}

// start starts a child and waits until it is ready.
func start(t *testing.T, role, root string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")}
	c.cmd.Env = append(os.Environ(), childEnv+"="+role, childRoot+"="+root)
	c.cmd.Stderr = &c.err
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.want("ready")
	return c
}

// line is the next line that the child prints, or "" at its end.
func (c *child) line() string {
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

func (c *child) want(line string) {
	c.t.Helper()
	if got := c.line(); got != line {
		c.t.Fatalf("the child says %q, want %q; %s", got, line, c.err.String())
	}
}

func (c *child) tell() {
	c.t.Helper()
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		c.t.Fatal(err)
	}
}

// rest is what the child still prints until it ends well.
func (c *child) rest() []string {
	c.t.Helper()
	var lines []string
	for l := c.line(); l != ""; l = c.line() {
		lines = append(lines, l)
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("child: %v: %s", err, c.err.String())
	}
	return lines
}

func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // killed
}

func startAll(t *testing.T, role, root string, n int) []*child {
	t.Helper()
	children := make([]*child, n)
	for i := range children {
		children[i] = start(t, role, root)
	}
	return children
}

const processes = 6

func TestProcessesRaceForNames(t *testing.T) {
	root := t.TempDir()
	children := startAll(t, "absent", root, processes)
	for _, c := range children {
		c.tell()
	}
	b := bucket(t, root)
	winners := map[string]int{}
	for _, c := range children {
		for _, line := range c.rest() {
			name := strings.TrimPrefix(line, "won ")
			if before, twice := winners[name]; twice {
				t.Errorf("%s was won by processes %d and %d", name, before, c.cmd.Process.Pid)
			}
			winners[name] = c.cmd.Process.Pid
		}
	}
	if len(winners) != raceNames {
		t.Errorf("%d of %d names were won", len(winners), raceNames)
	}
	for name, pid := range winners {
		got, err := b.ReadAll(t.Context(), name, 1<<20)
		if err != nil || !bytes.Equal(got, content(pid)) {
			t.Errorf("%s does not hold what its winner, process %d, put: %.20q, %v", name, pid, got, err)
		}
	}
	if got := onDisk(t, root); len(got) != raceNames {
		t.Errorf("%d files on disk, want %d", len(got), raceNames)
	}
}

func TestProcessesCountTogether(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	put(t, b, "count", "0")
	children := startAll(t, "count", root, processes)
	for _, c := range children {
		c.tell()
	}
	for _, c := range children {
		c.rest()
	}
	got, err := b.ReadAll(t.Context(), "count", 100)
	if want := strconv.Itoa(processes * countEach); string(got) != want || err != nil {
		t.Errorf("counted to %s, want %s (%v)", got, want, err)
	}
}

func TestProcessesRaceForALock(t *testing.T) {
	root := t.TempDir()
	children := startAll(t, "lock", root, processes)
	for _, c := range children {
		c.tell()
	}
	var holder *child
	for _, c := range children {
		switch line := c.line(); {
		case line == "locked" && holder == nil:
			holder = c
		case line == "locked":
			t.Errorf("processes %d and %d hold the lock", holder.cmd.Process.Pid, c.cmd.Process.Pid)
		case !strings.Contains(line, "locked by another process"):
			t.Errorf("the child says %q; %s", line, c.err.String())
		}
	}
	if holder == nil {
		t.Fatal("nobody holds the lock")
	}
	holder.tell()
	for _, c := range children {
		c.rest()
	}
}

func TestLockEndsWithItsProcess(t *testing.T) {
	root := t.TempDir()
	b := bucket(t, root)
	for range 3 {
		c := start(t, "lock", root)
		c.tell()
		c.want("locked")
		wantHeld := func(state string) {
			t.Helper()
			_, err := b.Lock(t.Context(), "locks/table")
			if !errors.Is(err, storage.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("held by pid %d on ", c.cmd.Process.Pid)) {
				t.Errorf("Lock while the holder %s: %v", state, err)
			}
		}
		wantHeld("runs")
		if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		wantHeld("is stopped")
		c.kill() // SIGKILL: it has no chance to clean up
		held, err := b.Lock(t.Context(), "locks/table")
		if err != nil {
			t.Fatalf("Lock after the holder was killed: %v", err)
		}
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestKilledUploadIsSwept(t *testing.T) {
	root := t.TempDir()
	c := start(t, "upload", root)
	c.tell()
	c.want("written")
	c.kill()
	b := bucket(t, root)
	if got := names(t, b); got != nil {
		t.Errorf("List = %q", got)
	}
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	if got := onDisk(t, root); got != nil {
		t.Errorf("on disk: %q", got)
	}
}

func TestNothingIsStoredWhenSpaceEnds(t *testing.T) {
	root := t.TempDir()
	c := start(t, "full", root)
	c.tell()
	lines := c.rest()
	slices.Sort(lines)
	if want := []string{"commit true", "put true", "write true"}; !slices.Equal(lines, want) {
		t.Errorf("the child says %q, want %q", lines, want)
	}
	if got := onDisk(t, root); !slices.Equal(got, []string{"f/small"}) {
		t.Errorf("on disk: %q", got)
	}
}

// TestAcknowledgedPutsOutliveTheProcess kills a writer at some moment: all that
// it called stored is there, and all that is there is whole.
func TestAcknowledgedPutsOutliveTheProcess(t *testing.T) {
	for _, after := range []int{1, 2, 7, 20} {
		root := t.TempDir()
		c := start(t, "acknowledge", root)
		c.tell()
		acknowledged := map[string]bool{}
		for range after {
			acknowledged[c.line()] = true
		}
		time.AfterFunc(time.Duration(after)*100*time.Microsecond, func() { _ = c.cmd.Process.Kill() })
		for l := c.line(); l != ""; l = c.line() {
			acknowledged[l] = true
		}
		_ = c.cmd.Wait() // killed
		b := bucket(t, root)
		if _, err := b.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		there := names(t, b)
		for _, name := range there {
			got, err := b.ReadAll(t.Context(), name, 1<<20)
			if err != nil || !bytes.Equal(got, content(c.cmd.Process.Pid)) {
				t.Errorf("%s is torn: %d bytes, %v", name, len(got), err)
			}
			delete(acknowledged, name)
		}
		if len(acknowledged) > 0 {
			t.Errorf("stored and lost: %v", acknowledged)
		}
		if got := onDisk(t, root); len(got) != len(there) {
			t.Errorf("on disk %d files, listed %d", len(got), len(there))
		}
	}
}
