package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/couch2hudi/couch2hudi/changes"
)

// ErrClosed is what the calls of a closed Source return.
var ErrClosed = errors.New("kafka source is closed")

// lost marks what only --accept-gap, or nothing, helps.
func lost(format string, args ...any) error {
	return fmt.Errorf("%w: %s; the table misses what they said: fill it from a topic that has everything, "+
		"or from the database (couch2hudi run --source couchdb://…), or go on from what is there with --accept-gap",
		changes.ErrPosition, fmt.Sprintf(format, args...))
}

// named says what an error of the cluster means to a caller. Errors that are
// worth another attempt are returned as they are, and so are those that have
// their meaning.
func named(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case missing(err):
		return fmt.Errorf("topic %q: %w: %w", topic, changes.ErrNotFound, err)
	case refused(err):
		return fmt.Errorf("topic %q: %w: %w; check user, password and the rights on topic, group and transactional id", topic, changes.ErrUnauthorized, err)
	}
	return err
}

func missing(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

func refused(err error) bool {
	for _, e := range []*kerr.Error{kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.TopicAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

// final says that no attempt of its own will help.
func final(err error) bool {
	for _, e := range []error{changes.ErrPosition, changes.ErrRecreated, changes.ErrLeaves, changes.ErrUnauthorized, ErrClosed, ErrOptions} {
		if errors.Is(err, e) {
			return true
		}
	}
	var large *kgo.ErrDecompressTooLarge
	return refused(err) || errors.As(err, &large) || errors.Is(err, kerr.MessageTooLarge)
}

// gone is why a context is done.
func gone(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ctx.Err()
}
