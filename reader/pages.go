package reader

import "fmt"

// pages keep bytes that are written once and read back by place: in memory up
// to a budget, beyond it in a temporary file. Bytes are held in pages, so that
// growing copies nothing and going to disk is one write a page.
type pages struct {
	budget int64
	list   []page
	// first is the first page that is in memory; those before it are not.
	first int
	// held is the memory that the pages in list take.
	held int64
	file spillFile
	// read is the buffer for bytes that come back from file.
	read []byte
}

// page is in memory while data is not nil, and in the file at offset otherwise.
type page struct {
	data   []byte
	offset int64
}

// place says where bytes lie: a page, and a stretch of it.
type place struct{ page, start, size int32 }

const (
	// smallPage is the size of the first page: most slices have few log rows.
	smallPage = 4 << 10
	// largePage is the size to which pages grow.
	largePage = 1 << 20
	// maxRow is the largest encoded row: what an int32 can say.
	maxRow = 1<<31 - 1
)

// last is the page that takes n more bytes.
func (p *pages) last(n int) *page {
	if k := len(p.list); k > 0 {
		if q := &p.list[k-1]; q.data != nil && cap(q.data)-len(q.data) >= n {
			return q
		}
	}
	size := smallPage
	if k := len(p.list); k > 0 {
		const doublings = 8
		size = min(smallPage<<min(k, doublings), largePage)
	}
	const shares = 4 // no page takes more of a small budget
	size = max(n, int(min(int64(size), p.budget/shares)))
	p.held += int64(size)
	p.list = append(p.list, page{data: make([]byte, 0, size)})
	return &p.list[len(p.list)-1]
}

// add keeps a copy of b.
func (p *pages) add(b []byte) (place, error) {
	if len(b) > maxRow || len(p.list) >= maxRow {
		return place{}, fmt.Errorf("row of %d bytes is too large to merge", len(b))
	}
	q := p.last(len(b))
	at := place{page: int32(len(p.list) - 1), start: int32(len(q.data)), size: int32(len(b))}
	q.data = append(q.data, b...)
	if p.held > p.budget {
		return at, p.spill()
	}
	return at, nil
}

// spill moves every page that is in memory to the file.
func (p *pages) spill() error {
	for ; p.first < len(p.list); p.first++ {
		q := &p.list[p.first]
		q.offset = p.file.size
		if _, err := p.file.Write(q.data); err != nil {
			return err
		}
		q.data = nil
	}
	p.held = 0
	return nil
}

// get is the bytes at a place. They are valid until the next get.
func (p *pages) get(at place) ([]byte, error) {
	q := &p.list[at.page]
	if q.data != nil {
		return q.data[at.start : at.start+at.size : at.start+at.size], nil
	}
	if cap(p.read) < int(at.size) {
		p.read = make([]byte, at.size)
	}
	b := p.read[:at.size]
	if _, err := p.file.ReadAt(b, q.offset+int64(at.start)); err != nil {
		return nil, fmt.Errorf("read log rows back from disk: %w", err)
	}
	return b, nil
}

// close gives the memory back and removes the file.
func (p *pages) close() error {
	p.list, p.first, p.read, p.held = nil, 0, nil, 0
	return p.file.close()
}
