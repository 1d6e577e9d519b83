//go:build oracle

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is a Kafka broker of one node on this machine, which may be killed.
type broker struct {
	t       testing.TB
	lib     string
	dir     string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
}

const brokerSettings = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=%[3]s
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
`

// newBroker starts one. It is stopped before its folder goes.
func newBroker(t testing.TB) *broker {
	t.Helper()
	home := os.Getenv("ORACLE_DIR")
	if home == "" {
		home = "../.cache/oracle"
	}
	b := &broker{t: t, lib: filepath.Join(home, "kafka", "lib"), dir: t.TempDir(), address: freeAddress(t)}
	if _, err := os.Stat(filepath.Join(home, "kafka", ".installed")); err != nil {
		t.Fatalf("no Kafka: %v\ninstall it with: make oracle", err)
	}
	settings := fmt.Sprintf(brokerSettings, b.address, freeAddress(t), filepath.Join(b.dir, "logs"))
	if err := os.WriteFile(b.settings(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	format := b.java("kafka.tools.StorageTool", "format", "-t", base64URL(id[:]), "-c", b.settings())
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format the broker's folder: %v\n%s", err, out)
	}
	b.start()
	t.Cleanup(b.kill)
	return b
}

func (b *broker) settings() string { return filepath.Join(b.dir, "server.properties") }

func (b *broker) java(args ...string) *exec.Cmd {
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	return exec.Command(java, append([]string{"-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", b.lib + "/*"}, args...)...)
}

// start starts the broker and waits until it answers.
func (b *broker) start() {
	b.t.Helper()
	var said bytes.Buffer
	b.cmd = b.java("kafka.Kafka", b.settings())
	b.cmd.Stdout, b.cmd.Stderr = &said, &said
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	b.ended = ended
	go func() { _ = b.cmd.Wait(); close(ended) }()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.address))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), followPatience)
	defer cancel()
	for c.Ping(ctx) != nil {
		select {
		case <-ended:
			b.t.Fatalf("the broker ended: %s", said.String())
		case <-ctx.Done():
			b.t.Fatalf("the broker does not answer within %s", followPatience)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill ends the broker as a crash would.
func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// freeAddress is one on which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// worker is a couch2hudi that is killed and started again.
type worker struct {
	t     *testing.T
	args  []string
	cmd   *exec.Cmd
	said  lockedBuffer
	ended chan struct{}
	kills int
}

func newWorker(t *testing.T, args ...string) *worker {
	t.Helper()
	w := &worker{t: t, args: args}
	w.start()
	t.Cleanup(func() { w.kill() })
	return w
}

func (w *worker) start() {
	w.t.Helper()
	path, err := binary()
	if err != nil {
		w.t.Fatal(err)
	}
	w.cmd = exec.Command(path, w.args...)
	w.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(path), "cache"))
	w.cmd.Stdout, w.cmd.Stderr = &w.said, &w.said
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	w.ended = ended
	go func() { _ = w.cmd.Wait(); close(ended) }()
}

// kill ends it as kill -9 does; one that ended by itself is an error.
func (w *worker) kill() {
	select {
	case <-w.ended:
		if !w.t.Failed() && w.cmd.ProcessState.Exited() {
			w.t.Errorf("couch2hudi %v ended by itself: %v\n%s", w.args, w.cmd.ProcessState, w.said.String())
		}
	default:
		_ = w.cmd.Process.Kill()
		<-w.ended
		w.kills++
	}
}

// pauseFor is not a wait for anything: it picks the moment of a kill.
func pauseFor(d time.Duration) { <-time.After(d) }
