package basefile

import (
	"slices"

	"github.com/parquet-go/parquet-go"
)

// Ahead is a reader that wants to know which stretches will be read from beginning to
// end, in bytes of the file.
type Ahead interface {
	Ahead(offset, length int64)
}

// announce tells the reader below which columns of a row group will be read whole.
func (p *plan) announce(g parquet.RowGroup) {
	i := slices.Index(p.file.file.RowGroups(), g)
	if p.file.ahead == nil || i < 0 {
		return
	}
	chunks := p.file.file.Metadata().RowGroups[i].Columns
	told := make(map[int]bool, len(p.cursors))
	for _, c := range p.cursors {
		if told[c.column] || c.column >= len(chunks) {
			continue // a leaf may have two cursors
		}
		told[c.column] = true
		m := &chunks[c.column].MetaData
		from := m.DataPageOffset
		if m.DictionaryPageOffset > 0 {
			from = min(from, m.DictionaryPageOffset)
		}
		p.file.ahead.Ahead(from, m.TotalCompressedSize)
	}
}
