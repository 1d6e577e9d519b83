package cloud

import (
	"errors"
	"net/http"

	"github.com/couch2hudi/couch2hudi/storage"
)

// Error is an error of a store that somebody has to do something about.
type Error struct {
	Err  error
	hint string
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap implements errors.
func (e *Error) Unwrap() error { return e.Err }

// Hint is what to do next.
func (e *Error) Hint() string { return e.hint }

// Codes of the vendors, and hints for them.
const (
	hintBucket = "create it, or correct the bucket in the table's URL"
	hintDenied = "see that the credentials are the right ones, and may list, read and write there (docs/stores.md, Permissions)"
	hintRegion = "the bucket is in another region: write region=NAME into the table's URL"
	hintClock  = "set this machine's clock"
	hintReach  = "see that the store can be reached from here, and whether it is out of order; patience=TIME in the table's URL waits longer"
)

func hintOf(code string, status int) string {
	switch code {
	case "NoSuchBucket", "ContainerNotFound", codeNoBucket:
		return hintBucket
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return hintRegion
	case "RequestTimeTooSkewed":
		return hintClock
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return hintDenied
	case http.StatusMovedPermanently:
		return hintRegion
	}
	return ""
}

// codeNoBucket stands for what Google's client says in an error of its own.
const codeNoBucket = "no bucket"

// explain adds the next step to an error that no further try mends.
func (d *Driver) explain(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, storage.ErrExist) || errors.Is(err, storage.ErrChanged) {
		return err
	}
	code, status := d.store.answer(err)
	hint := hintOf(code, status)
	if hint == "" && (networkFault(err) == passing || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests) {
		hint = hintReach
	}
	if hint == "" {
		return err
	}
	return &Error{Err: err, hint: hint}
}
