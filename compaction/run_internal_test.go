package compaction

import (
	"errors"
	"testing"

	"github.com/couch2hudi/couch2hudi/reader"
)

func TestCheckRows(t *testing.T) {
	tally := &reader.Tally{Base: 10, Inserted: 3, Hidden: 2}
	for _, c := range []struct {
		got, rows int64
		want      error
	}{{11, 11, nil}, {10, 10, ErrKeys}, {12, 12, ErrKeys}, {11, 10, ErrKeys}, {10, 11, ErrKeys}} {
		if err := checkRows("f", c.got, c.rows, tally); !errors.Is(err, c.want) {
			t.Errorf("%d rows, %d written: %v, want %v", c.got, c.rows, err, c.want)
		}
	}
}
