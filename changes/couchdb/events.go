package couchdb

import (
	"time"

	"github.com/couch2hudi/couch2hudi/changes"
)

// Events are told what the source does. Every func may be nil. They are called
// synchronously, from the goroutine that does the work: they must return
// quickly, must be safe for concurrent use and must not call the source.
type Events struct {
	// Connected: a response's head arrived and rows can follow.
	Connected func(Connected)
	// Ended: a feed came to its end, whatever the reason.
	Ended func(Ended)
	// Retried: something temporary failed and is tried again after a pause.
	Retried func(Retried)
	// LoggedIn: the server refused the credentials, so they were read again
	// and a new session was begun.
	LoggedIn func()
	// Refetched: a live row came without its document, which was asked for
	// once more.
	Refetched func(Refetched)
	// PurgesMissed: this many purges happened that the server does not list
	// any more, or cannot list. Documents that they removed may still be in
	// the table; verify finds them.
	PurgesMissed func(n int64)
	// Warned: something works that should not stay as it is.
	Warned func(reason string)
}

// Connected says which feed was opened from where.
type Connected struct {
	// Feed is "normal" or "continuous".
	Feed string
	// Since is the position that the feed was asked to start after.
	Since changes.Position
}

// Ended says how a feed ended.
type Ended struct {
	// Feed is "normal" or "continuous".
	Feed string
	// Rows is the number of rows that the feed brought.
	Rows int64
	// Lasted is the time from the request to the end.
	Lasted time.Duration
	// Err is the reason; nil when a normal feed was read to its end.
	Err error
}

// Retried says what failed and how long the pause is.
type Retried struct {
	// Err is what failed.
	Err error
	// Attempt counts the failures in a row, from 1.
	Attempt int
	// Wait is the pause before the next attempt.
	Wait time.Duration
}

// Refetched says whether asking again brought a document.
type Refetched struct {
	// ID is the document's id.
	ID string
	// Found says that the document came.
	Found bool
}

func (e Events) connected(v Connected) {
	if e.Connected != nil {
		e.Connected(v)
	}
}

func (e Events) ended(v Ended) {
	if e.Ended != nil {
		e.Ended(v)
	}
}

func (e Events) retried(v Retried) {
	if e.Retried != nil {
		e.Retried(v)
	}
}

func (e Events) loggedIn() {
	if e.LoggedIn != nil {
		e.LoggedIn()
	}
}

func (e Events) refetched(v Refetched) {
	if e.Refetched != nil {
		e.Refetched(v)
	}
}

func (e Events) purgesMissed(n int64) {
	if e.PurgesMissed != nil {
		e.PurgesMissed(n)
	}
}

func (e Events) warned(reason string) {
	if e.Warned != nil {
		e.Warned(reason)
	}
}
