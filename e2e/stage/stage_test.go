package main

import (
	"bufio"
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestCountFollowsEvents(t *testing.T) {
	const p = `"Package":"x/y"`
	tests := []struct {
		name, events string
		want         tally
		log          bool
		shows, hides string
	}{
		{
			name: "a test and its subtests count, quietly",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}
{"Action":"run",` + p + `,"Test":"TestA/one"}
{"Action":"output",` + p + `,"Test":"TestA/one","Output":"chatter\n"}
{"Action":"pass",` + p + `,"Test":"TestA/one"}
{"Action":"pass",` + p + `,"Test":"TestA"}
{"Action":"pass",` + p + `,"Elapsed":1.5}
`,
			want: tally{Passed: 2}, shows: "ok    x/y  1.5s", hides: "chatter",
		},
		{
			name: "what a passing test logs is shown when asked for",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}
{"Action":"output",` + p + `,"Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output",` + p + `,"Test":"TestA","Output":"    a_test.go:7: 300 MB\n"}
{"Action":"pass",` + p + `,"Test":"TestA"}
`,
			log: true, want: tally{Passed: 1}, shows: "a_test.go:7: 300 MB", hides: "RUN",
		},
		{
			name: "a failing test is shown",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}
{"Action":"output",` + p + `,"Test":"TestA","Output":"got 1, want 2\n"}
{"Action":"fail",` + p + `,"Test":"TestA"}
{"Action":"fail",` + p + `}
`,
			want: tally{Failed: 1}, shows: "got 1, want 2",
		},
		{
			name: "a package that does not build is a failure",
			events: `{"Action":"build-output","ImportPath":"x/y","Output":"y.go:1: undefined: z\n"}
{"Action":"fail",` + p + `,"FailedBuild":"x/y"}
`,
			want: tally{Failed: 1}, shows: "undefined: z",
		},
		{
			name: "a test that panics away its package is a failure",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}
{"Action":"output",` + p + `,"Test":"TestA","Output":"panic: boom\n"}
{"Action":"output",` + p + `,"Output":"exit status 2\n"}
{"Action":"fail",` + p + `}
`,
			want: tally{Failed: 1}, shows: "panic: boom",
		},
		{
			name:   "a stream that stops short fails what ran",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}` + "\n",
			want:   tally{Failed: 1},
		},
		{
			name: "skips are told, not counted as passed",
			events: `{"Action":"run",` + p + `,"Test":"TestA"}
{"Action":"skip",` + p + `,"Test":"TestA"}
`,
			want: tally{Skipped: 1},
		},
		{name: "other text is passed on", events: "go: cannot find module\n", shows: "cannot find module"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			got := count(bufio.NewReader(strings.NewReader(tt.events)), &out, tt.log)
			if got != tt.want {
				t.Errorf("count = %+v, want %+v", got, tt.want)
			}
			if !strings.Contains(out.String(), tt.shows) {
				t.Errorf("output %q does not show %q", out.String(), tt.shows)
			}
			if tt.hides != "" && strings.Contains(out.String(), tt.hides) {
				t.Errorf("output %q shows %q", out.String(), tt.hides)
			}
		})
	}
}

func TestRunCollectsStagesAndSums(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results")
	stages := []struct {
		args []string
		ok   bool
	}{
		{[]string{"-name", "good", "--", "true"}, true},
		{[]string{"-name", "bad", "--", "false"}, false},
		{[]string{"-name", "nothing ran", "-json", "--", "true"}, false},
		{[]string{"-name", "tests", "-json", "--", "printf", `%s\n%s\n`,
			`{"Action":"run","Package":"p","Test":"T"}`, `{"Action":"pass","Package":"p","Test":"T"}`}, true},
	}
	for _, s := range stages {
		var out bytes.Buffer
		ok, err := run(t.Context(), append([]string{"-results", results}, s.args...), &out)
		if err != nil || ok != s.ok {
			t.Errorf("run %q = %v, %v; want %v", s.args, ok, err, s.ok)
		}
	}
	var out bytes.Buffer
	ok, err := run(t.Context(), []string{"-results", results, "-sum"}, &out)
	if err != nil || ok {
		t.Errorf("sum = %v, %v; want false", ok, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; last != "2 passed, 2 failed" {
		t.Errorf("last line %q", last)
	}
	if !strings.Contains(out.String(), "nothing ran") {
		t.Errorf("table lacks a stage:\n%s", out.String())
	}
}

func TestRunRefusesWhatItCannotDo(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results")
	for _, args := range [][]string{
		{"-name", "x", "--", "true"},
		{"-results", results, "--", "true"},
		{"-results", results, "-name", "x"},
		{"-results", results, "-sum"},
		{"-results", results, "-name", "x", "--", "/no/such/command"},
	} {
		var out bytes.Buffer
		if ok, err := run(t.Context(), args, &out); err == nil || ok {
			t.Errorf("run %q = %v, %v; want an error", args, ok, err)
		}
	}
}
