package memory

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var full = flag.Bool("memory.full", false, "a million documents and 50 of 8 MB")

// mostResident is what the binary may have in memory with the default
// configuration, in bytes: the budget, a document of 8 MB as it is encoded, and some
// 55 MB of the program's own pages, which are counted with it.
const mostResident = 400_000_000

// program is the binary under test, which TestMain builds.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(standInEnv) != "" {
		if err := standIn(); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "couch2hudi-memory")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "couch2hudi")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "../../cmd/couch2hudi")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build couch2hudi:", err)
		return 1
	}
	return m.Run()
}

// Many small documents with large ones among them go into the table, and then
// new versions and deletions of some of them, which the index has to find: each
// within the memory that the binary is allowed, and each leaves the table equal
// to the database.
func TestMemoryIsBounded(t *testing.T) {
	small, large := 20_000, 2
	if *full {
		small, large = 1_000_000, 50
	}
	s := startServer(t)
	dir := filepath.Join(t.TempDir(), "table")
	run := []string{"run", "--once", "--source", s.url}
	config := filepath.Join(t.TempDir(), "couch2hudi.yaml")
	if err := os.WriteFile(config, []byte("source: {parallel: 8}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parallel := append(slices.Clone(run), "--config", config)
	type step struct {
		verb, table string
		args        []string
	}
	steps := []step{{"load", dir, run}}
	if !*full { // it takes the stand-in minutes, and no more memory: 333 MB of a million documents
		steps = append(steps, step{"", dir + "-parallel", parallel})
	}
	for _, step := range append(steps, []step{
		// The compaction of what is updated has memory of its own beside the
		// ingest's: it comes as a step of its own.
		{"update", dir, append(slices.Clone(run), "--compaction", "off")},
		{"", dir, []string{"compact"}},
	}...) {
		changed := 0
		if step.verb != "" {
			changed = s.ask("%s %d %d", step.verb, small, large)
		}
		took, resident := execute(t, step.table, step.args...)
		rows := s.ask("compare %s", step.table)
		what := strings.Join(step.args, " ")
		t.Logf("%s: %d changes, %.1f s, at most %.0f MB resident; the table: %d rows, %.0f MB",
			what, changed, took.Seconds(), float64(resident)/1e6, rows, float64(size(t, step.table))/1e6)
		if resident >= mostResident {
			t.Errorf("%s: %d bytes resident, and %d are allowed", what, resident, mostResident)
		}
		if step.verb == "update" { // there are log files now, to be merged
			readAll(t, dir, rows)
		}
	}
}

// readAll reads the whole table in each format, and what each commit changed: what is
// in memory does not follow what is read.
func readAll(t *testing.T, dir string, rows int) {
	t.Helper()
	for _, args := range [][]string{
		{"query", "--format", "jsonl"}, {"query", "--format", "csv"}, {"query", "--format", "parquet"}, {"query", "--format", "table"},
		{"query", "--changes", "--since", "earliest", "--format", "jsonl"},
	} {
		file := filepath.Join(t.TempDir(), "out")
		took, resident := execute(t, dir, append(slices.Clone(args), "--out", file)...)
		what := strings.Join(args, " ")
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rows in %.1f s, %.0f MB, at most %.0f MB resident", what, rows, took.Seconds(), float64(info.Size())/1e6, float64(resident)/1e6)
		if resident >= mostResident {
			t.Errorf("%s: %d bytes resident, and %d are allowed", what, resident, mostResident)
		}
		if args[len(args)-1] == "jsonl" && len(args) == 3 {
			if n := lines(t, file); n != rows {
				t.Errorf("%s: %d lines, the table has %d rows", what, n, rows)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func lines(t *testing.T, file string) int {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, buffer := 0, make([]byte, 1<<20)
	for {
		k, err := f.Read(buffer)
		n += bytes.Count(buffer[:k], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// execute runs the binary on a table, with the default configuration but for
// the arguments, and says how long that took and how many bytes were resident
// at most.
func execute(t *testing.T, dir string, args ...string) (took time.Duration, resident int64) {
	t.Helper()
	return start(t, dir, append(slices.Clone(args), "--table", dir)...)
}

// start is execute for a command that has no table.
func start(t *testing.T, _ string, args ...string) (took time.Duration, resident int64) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "COUCH2HUDI") || strings.HasPrefix(v, "GO")
	})
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+filepath.Dir(program)) // key caches
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(began)
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("the system does not say what the binary used")
	}
	return took, usage.Maxrss << 10 // in KiB
}

// size is how many bytes the files of the table have.
func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
