package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/couch2hudi/couch2hudi/changes"
	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/normalize"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// Exit codes, a contract with operators and programs.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitRecreated = 3
	exitGone      = 4
	exitHeld      = 5
	exitDiffers   = 6
)

// usageError is a wrong command line.
type usageError struct {
	err     error
	command string
}

func (e *usageError) Error() string {
	if e.command == "" {
		return e.err.Error()
	}
	return fmt.Sprintf("%s; see %s --help", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

const sinceHint = "--since takes 0, now, or a seq that this database gave"

// sinceError is a --since that the source cannot read: wrong usage, and not a
// position that was lost.
type sinceError struct{ err error }

func (e *sinceError) Error() string {
	return e.err.Error() + "; " + sinceHint
}
func (e *sinceError) Unwrap() error { return e.err }

// exitCode is the one place that says which error ends with which code.
func exitCode(err error) int {
	var usage *usageError
	var since *sinceError
	var differ *differError
	switch {
	case errors.As(err, &differ):
		return exitDiffers
	case errors.As(err, &usage), errors.As(err, &since):
		return exitUsage
	case errors.Is(err, config.ErrConfig), errors.Is(err, pipeline.ErrPinned), errors.Is(err, changes.ErrLeaves), errors.Is(err, normalize.ErrDeclared), errors.Is(err, pipeline.ErrNoRepair), errors.Is(err, table.ErrNoInstant):
		return exitUsage
	case errors.Is(err, pipeline.ErrRoutes), errors.Is(err, pipeline.ErrUnrouted):
		return exitUsage
	case errors.Is(err, changes.ErrRecreated):
		return exitRecreated
	case errors.Is(err, changes.ErrPosition), errors.Is(err, changes.ErrChain), isGone(err):
		return exitGone
	case errors.Is(err, table.ErrHeld), errors.Is(err, table.ErrLost), errors.Is(err, table.ErrBusy), errors.Is(err, changes.ErrBusy):
		return exitHeld
	}
	return exitFailed
}

// message is what a person reads: the error, on one line, with its hint where
// the error keeps that to itself.
func message(err error) string {
	text := oneLine(err.Error())
	var hinting interface{ Hint() string }
	if errors.As(err, &hinting) {
		text += "; " + hinting.Hint()
	}
	return text
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
