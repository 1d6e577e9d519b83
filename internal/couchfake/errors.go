package couchfake

import (
	"errors"
	"net/http"
	"strconv"
)

// failure is an answer that is not a success: what the server puts into "error" and "reason".
type failure struct {
	status int
	name   string
	reason string
	ref    int // the hash of a stack trace, which an unknown_error carries
}

// Error makes a failure usable as an error on its way to the handler.
func (f *failure) Error() string { return f.name + ": " + f.reason }

// body is the JSON that goes with the status.
func (f *failure) body() []byte {
	b := append([]byte(`{"error":`), appendString(nil, f.name)...)
	b = append(b, `,"reason":`...)
	b = appendString(b, f.reason)
	if f.ref != 0 {
		b = append(b, `,"ref":`...)
		b = strconv.AppendInt(b, int64(f.ref), 10)
	}
	return append(b, '}', '\n')
}

func badRequest(reason string) *failure {
	return &failure{status: http.StatusBadRequest, name: "bad_request", reason: reason}
}

func notFound(reason string) *failure {
	return &failure{status: http.StatusNotFound, name: "not_found", reason: reason}
}

func badArgument(ref int) *failure {
	return &failure{status: http.StatusInternalServerError, name: "unknown_error", reason: "badarg", ref: ref}
}

func illegalID(reason string) *failure {
	return &failure{status: http.StatusBadRequest, name: "illegal_docid", reason: reason}
}

func badMember(name string) *failure {
	return &failure{status: http.StatusBadRequest, name: "doc_validation", reason: "Bad special document member: " + name}
}

// The failures that always say the same. Handlers compare by identity.
var (
	errInvalidJSON = badRequest("invalid UTF-8 JSON")
	errBadArith    = &failure{status: http.StatusInternalServerError, name: "unknown_error", reason: "badarith", ref: 98876473}
	errBadRev      = badRequest("Invalid rev format")
	errBadSince    = badRequest("Malformed sequence supplied in 'since' parameter.")
	errNoDatabase  = notFound("Database does not exist.")
	errMissing     = notFound("missing")
	errDeleted     = notFound("deleted")
	errConflict    = &failure{status: http.StatusConflict, name: "conflict", reason: "Document update conflict."}
	errExists      = &failure{status: http.StatusPreconditionFailed, name: "file_exists", reason: "The database could not be created, the file already exists."}
	errTooLarge    = &failure{status: http.StatusRequestEntityTooLarge, name: "document_too_large"}
	errNotJSON     = &failure{status: http.StatusUnsupportedMediaType, name: "bad_content_type", reason: "Content-Type must be application/json"}
)

// asFailure turns any error into an answer: what is not a failure is a fault of the fake itself.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{status: http.StatusInternalServerError, name: "internal_server_error", reason: err.Error()}
}
