package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// stage is one line of the results: what ran, how long, and how it went.
type stage struct {
	Name    string
	Seconds float64
	tally
}

// String is the line that a person reads.
func (s stage) String() string {
	line := fmt.Sprintf("== %-14s %7.1f s  %d passed, %d failed", s.Name, s.Seconds, s.Passed, s.Failed)
	if s.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	return line
}

// record appends the stage to the file, which need not exist.
func record(path string, s stage) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open results: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s\t%.1f\t%d\t%d\t%d\n", s.Name, s.Seconds, s.Passed, s.Failed, s.Skipped)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// summarize prints the recorded stages and, as the last line, their sum. No
// stage at all is no success.
func summarize(path string, out io.Writer) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("open results: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	var sum stage
	var table strings.Builder
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		s, err := parse(lines.Text())
		if err != nil {
			return false, err
		}
		fmt.Fprintln(&table, s)
		sum.Seconds += s.Seconds
		sum.Passed += s.Passed
		sum.Failed += s.Failed
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("read results: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s== all stages     %7.1f s\n%d passed, %d failed\n", table.String(), sum.Seconds, sum.Passed, sum.Failed)
	return sum.Failed == 0 && sum.Passed > 0, err
}

func parse(line string) (stage, error) {
	var s stage
	name, rest, _ := strings.Cut(line, "\t")
	s.Name = name
	if _, err := fmt.Sscan(rest, &s.Seconds, &s.Passed, &s.Failed, &s.Skipped); err != nil {
		return s, fmt.Errorf("read results line %q: %w", line, err)
	}
	return s, nil
}
