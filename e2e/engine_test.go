//go:build oracle

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// engineStart bounds how long an engine may take to say that it is ready; a JVM
// on a busy machine takes up to half a minute.
const engineStart = 3 * time.Minute

// engineKind names an engine and how it is started: by oracle/serve.py in a Python
// environment, or, without one, by oracle/jvm/start.sh.
type engineKind struct {
	name, venv string
	args       []string
}

// command is the program that answers, with its arguments, and a file that is only
// there when it is installed.
func (k engineKind) command(dir, log string) (argv []string, installed string) {
	if k.venv == "" {
		return []string{"oracle/jvm/start.sh", dir, k.name, "--log", log}, filepath.Join(dir, k.name, ".installed")
	}
	python := filepath.Join(dir, k.venv, "bin", "python")
	return append([]string{python, "oracle/serve.py", "--log", log}, k.args...), python
}

var (
	spark015 = sync.OnceValues(starter(engineKind{name: "spark-0.15", venv: "venv", args: []string{"spark", "--hudi-version", "0.15.0"}}))
	spark12  = sync.OnceValues(starter(engineKind{name: "spark-1.2", venv: "venv", args: []string{"spark", "--hudi-version", "1.2.0"}}))
	flink    = sync.OnceValues(starter(engineKind{name: "flink"}))
	hive     = sync.OnceValues(starter(engineKind{name: "hive"}))
	hudiRs   = sync.OnceValues(starter(engineKind{name: "hudi-rs", venv: "venv-hudirs", args: []string{"hudi-rs"}}))
)

// engines lists those that read every view quickly, for tests that ask each.
func engines() []func() (*engine, error) {
	return []func() (*engine, error){spark015, spark12, hudiRs}
}

// mustEngine gives the engine, started on first use, for the rest of the test
// binary. A missing engine fails the test: a check that did not run is no check.
func mustEngine(t *testing.T, start func() (*engine, error)) *engine {
	t.Helper()
	e, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// engine is a running oracle/serve.py or oracle/jvm/Serve. It ends when the test binary does, since
// its standard input closes then.
type engine struct {
	name    string
	release string // as it calls itself
	log     string

	mu  sync.Mutex // one question at a time
	in  io.WriteCloser
	out *bufio.Reader
}

func starter(k engineKind) func() (*engine, error) {
	return func() (*engine, error) {
		e, err := startEngine(k)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w\ninstall it with: make oracle", k.name, err)
		}
		return e, nil
	}
}

// oracleDir is where setup.sh installed the engines.
func oracleDir() string {
	if dir := os.Getenv("ORACLE_DIR"); dir != "" {
		return dir
	}
	return "../.cache/oracle"
}

func startEngine(k engineKind) (*engine, error) {
	dir, err := filepath.Abs(oracleDir())
	if err != nil {
		return nil, err
	}
	e := &engine{name: k.name, log: filepath.Join(dir, k.name+".log")}
	argv, installed := k.command(dir, e.log)
	if _, err := os.Stat(installed); err != nil {
		return nil, err
	}
	if err := os.Remove(e.log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if e.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.out = bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	overdue := time.AfterFunc(engineStart, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	var hello struct{ Ready, Error string }
	if err := e.read(&hello); err != nil {
		return nil, fmt.Errorf("%w (log: %s)", err, e.log)
	}
	if hello.Error != "" {
		return nil, errors.New(hello.Error)
	}
	e.release = hello.Ready
	return e, nil
}

// question is what serve.py understands; see its head for the words.
type question struct {
	Op        string            `json:"op"`
	Table     string            `json:"table"`
	AsOf      string            `json:"as_of,omitempty"`
	Begin     string            `json:"begin,omitempty"`
	End       string            `json:"end,omitempty"`
	Spans     [][2]string       `json:"spans,omitempty"`
	Columns   []string          `json:"columns,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
	Rows      []row             `json:"rows,omitempty"`
	Operation string            `json:"operation,omitempty"`
	// Add are columns that the rows have and the table lacks, Without those of the
	// table that they lack.
	Add       map[string]string `json:"add,omitempty"`
	Without   []string          `json:"without,omitempty"`
	Procedure string            `json:"procedure,omitempty"`
	Arguments map[string]string `json:"arguments,omitempty"`
	// Only is the half of a compaction to do: schedule or run.
	Only string `json:"only,omitempty"`
	To   string `json:"to,omitempty"`
	// Of streams: oracle/streams.py and oracle/jvm/Serve.java.
	ID         string                 `json:"id,omitempty"`
	Checkpoint string                 `json:"checkpoint,omitempty"`
	Statements []string               `json:"statements,omitempty"`
	Tables     map[string]tableSource `json:"tables,omitempty"`
	URL        string                 `json:"url,omitempty"`
	Query      string                 `json:"query,omitempty"` // of tables by name
}

// tableSource is a table as a stream's statements name it.
type tableSource struct {
	Path    string            `json:"path"`
	Options map[string]string `json:"options,omitempty"`
}

// answer is the raw form of what comes back.
type answer struct {
	Columns    [][2]string
	Rows       [][]any
	Answers    []answer
	Count      int
	Properties map[string]string
	Timeline   []instant
	Archived   []instant
	Findings   []finding
	Result     []map[string]any
	ID, State  string // of a stream
	Error      string
}

// instant is one line of a timeline as the engine sees it. Details are those of
// completed instants in an archive.
type instant struct{ Action, State, Requested, Completed, File, Details string }

// finding is one line of Spark's check of a table.
type finding struct {
	Check string
	OK    bool
	Rows  any
}

// ask sends one question and waits for its answer. An engine's refusal is an error.
func (e *engine) ask(q question) (answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	if _, err := e.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("ask %s: %w (log: %s)", e.name, err, e.log)
	}
	var a answer
	if err := e.read(&a); err != nil {
		return answer{}, fmt.Errorf("hear %s: %w (log: %s)", e.name, err, e.log)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("%s %s: %s", e.name, q.Op, a.Error)
	}
	return a, nil
}

func (e *engine) read(into any) error {
	line, err := e.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return decodeNumbers(line, into)
}

// rows asks for rows and gives them with Go values.
func (e *engine) rows(q question) ([]row, error) {
	a, err := e.ask(q)
	if err != nil {
		return nil, err
	}
	return a.typedRows()
}

// increments asks for many spans of commits at once; the rows stand in the order
// of the spans.
func (e *engine) increments(table string, spans [][2]string, columns ...string) ([][]row, error) {
	a, err := e.ask(question{Op: "increments", Table: table, Spans: spans, Columns: columns})
	if err != nil {
		return nil, err
	}
	out := make([][]row, 0, len(a.Answers))
	for i, one := range a.Answers {
		if one.Error != "" {
			return nil, fmt.Errorf("%s incremental %v: %s", e.name, spans[i], one.Error)
		}
		rows, err := one.typedRows()
		if err != nil {
			return nil, fmt.Errorf("%s incremental %v: %w", e.name, spans[i], err)
		}
		out = append(out, rows)
	}
	return out, nil
}

func (a answer) typedRows() ([]row, error) {
	out := make([]row, 0, len(a.Rows))
	for _, values := range a.Rows {
		r := make(row, len(values))
		for i, v := range values {
			name, kind := a.Columns[i][0], a.Columns[i][1]
			t, err := typed(v, kind)
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", name, err)
			}
			r[name] = t
		}
		out = append(out, r)
	}
	return out, nil
}
