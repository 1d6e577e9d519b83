package hms

import (
	"context"

	"github.com/apache/thrift/lib/go/thrift"
)

// unsaid writes as Hive's own clients do where a table or a database has no location:
// not at all. The library would say that it is empty, with which the metastore, and
// whoever reads the view from it, fails.
type unsaid struct {
	thrift.TProtocol

	field func(ctx context.Context) error // a location's beginning that is held back
	skip  bool                            // its end is left out, too
}

// WriteFieldBegin holds back the beginning of a location.
func (u *unsaid) WriteFieldBegin(ctx context.Context, name string, kind thrift.TType, id int16) error {
	if name != "location" && name != "locationUri" {
		return u.TProtocol.WriteFieldBegin(ctx, name, kind, id)
	}
	u.field = func(ctx context.Context) error { return u.TProtocol.WriteFieldBegin(ctx, name, kind, id) }
	return nil
}

// WriteString writes a location, unless it is empty, or any other text.
func (u *unsaid) WriteString(ctx context.Context, value string) error {
	if begin := u.field; begin != nil {
		u.field = nil
		if u.skip = value == ""; u.skip {
			return nil
		}
		if err := begin(ctx); err != nil {
			return err
		}
	}
	return u.TProtocol.WriteString(ctx, value)
}

// WriteFieldEnd ends what was begun.
func (u *unsaid) WriteFieldEnd(ctx context.Context) error {
	if u.skip {
		u.skip = false
		return nil
	}
	return u.TProtocol.WriteFieldEnd(ctx)
}
