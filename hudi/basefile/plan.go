package basefile

import (
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/internal/avro"
)

// role is what a column means besides being one of the target's.
type role uint8

const (
	roleNone role = iota
	roleCommitTime
	roleCommitSeqno
	roleKey
	rolePartition
	roleOperation
	roleIsDeleted
	roleOrder
)

// roleNames are the columns of the roles; the ordering column's is the table's.
var roleNames = [...]string{roleCommitTime: hudi.MetaCommitTime, roleCommitSeqno: hudi.MetaCommitSeqno, roleKey: hudi.MetaRecordKey,
	rolePartition: hudi.MetaPartitionPath, roleOperation: hudi.MetaOperation, roleIsDeleted: "_hoodie_is_deleted", roleOrder: ""}

// flat is a column of plain values.
type flat struct {
	cursor *cursor
	role   role
	// column is the place in the target's row, -1 for none.
	column int
	how    conversion
}

// composite is a column of nested values.
type composite struct {
	column int
	root   *assembler
}

// plan reads the rows of a file onto a target schema.
type plan struct {
	file       *File
	flats      []flat
	composites []composite
	cursors    []*cursor
	record     hudi.Record
	row        hudi.Row
	nested     []byte
	deleted    bool
}

func (f *File) plan(target *hudi.Schema, orderColumn string, keysOnly bool) (p *plan, err error) {
	defer caught(&err)
	p = &plan{file: f, row: make(hudi.Row, target.Len())}
	root := f.file.Root()
	if err := p.special(root, hudi.MetaRecordKey, roleKey); err != nil || keysOnly {
		return p, err
	}
	for r := roleCommitTime; r <= roleOrder; r++ {
		name := roleNames[r]
		if r == roleOrder {
			name = orderColumn
		}
		if r == roleKey {
			continue
		}
		if err := p.special(root, name, r); err != nil {
			return nil, err
		}
	}
	wanted, err := avro.Parse(target.Avro())
	if err != nil {
		return nil, err
	}
	for i := range target.Columns() {
		c := &target.Columns()[i]
		node := root.Column(c.Name)
		if node == nil {
			continue
		}
		inner, _, _ := wanted.Type().Fields[i].Type.Optional()
		if err := p.column(i, c, node, inner); err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	return p, nil
}

// cursor is the one for a leaf; a leaf that is read twice has two.
func (p *plan) cursor(leaf *parquet.Column) *cursor {
	c := &cursor{name: leaf.Name(), column: leaf.Index()}
	p.cursors = append(p.cursors, c)
	return c
}

// single is the cursor of a column with one value in each row.
func (p *plan) single(leaf *parquet.Column) *cursor {
	c := p.cursor(leaf)
	c.single = true
	return c
}

// special adds a column that has a role, if the file has it.
func (p *plan) special(root *parquet.Column, name string, r role) error {
	node := root.Column(name)
	if node == nil || name == "" {
		return nil
	}
	kind := avro.String
	switch {
	case !node.Leaf() || node.Repeated():
		return fmt.Errorf("%w: column %s is composite", ErrUnsupported, name)
	case r == roleOrder:
		if kind = avro.Long; node.Type().Kind() != parquet.Int32 && node.Type().Kind() != parquet.Int64 {
			return fmt.Errorf("%w: ordering column %s is no integer but %s", ErrUnsupported, name, node.Type())
		}
	case r == roleIsDeleted:
		if kind = avro.Boolean; node.Type().Kind() != parquet.Boolean {
			return nil
		}
	}
	how, err := convert(node, &avro.Type{Kind: kind})
	if err != nil {
		return fmt.Errorf("column %s: %w", name, err)
	}
	p.flats = append(p.flats, flat{cursor: p.single(node), role: r, column: -1, how: how})
	return nil
}

func (p *plan) column(at int, c *hudi.Column, node *parquet.Column, t *avro.Type) error {
	if c.Kind != hudi.KindNested {
		if !node.Leaf() || node.Repeated() {
			return fmt.Errorf("%w: composite in the file, %s wanted", avro.ErrSchema, t)
		}
		how, err := convert(node, t)
		if err != nil {
			return err
		}
		// A column that has a role too is read once.
		for i := range p.flats {
			if f := &p.flats[i]; f.cursor.column == node.Index() && f.column < 0 && f.role == roleOrder && how.op == f.how.op {
				f.column = at
				return nil
			}
		}
		p.flats = append(p.flats, flat{cursor: p.single(node), column: at, how: how})
		return nil
	}
	root, err := p.assembler(node, t, 0, false)
	if err != nil {
		return err
	}
	p.composites = append(p.composites, composite{column: at, root: root})
	return nil
}

// group yields the rows of one row group; more is false when the consumer left.
func (p *plan) group(g parquet.RowGroup, yield func(*hudi.Record, error) bool) (more bool, err error) {
	defer func() {
		for _, c := range p.cursors {
			c.close()
		}
	}()
	if err := p.open(g); err != nil {
		return false, err
	}
	p.announce(g)
	for range g.NumRows() {
		if err := p.next(); err != nil {
			return false, err
		}
		if !yield(&p.record, nil) {
			return false, nil
		}
	}
	return true, nil
}

func (p *plan) open(g parquet.RowGroup) (err error) {
	defer caught(&err)
	for _, c := range p.cursors {
		c.open(g)
	}
	return nil
}

// next makes p.record of one row. A panic of the library is an error here, one
// of the consumer is not caught.
func (p *plan) next() (err error) {
	defer caught(&err)
	p.record, p.deleted = hudi.Record{}, false
	clear(p.row)
	p.nested = p.nested[:0]
	for i := range p.flats {
		if err := p.flat(&p.flats[i]); err != nil {
			return err
		}
	}
	for i := range p.composites {
		if err := p.composite(&p.composites[i]); err != nil {
			return err
		}
	}
	if p.record.Key.Record == "" {
		return fmt.Errorf("%w: a row without a record key", ErrFormat)
	}
	if p.deleted {
		p.record.Delete = true
	} else {
		p.record.Row = p.row
	}
	return nil
}

func (p *plan) flat(f *flat) error {
	v, err := f.cursor.next()
	if err != nil || v.IsNull() {
		return err
	}
	cell, err := f.how.value(v)
	if err != nil {
		return fmt.Errorf("column %s: %w", f.cursor.name, err)
	}
	if f.column >= 0 {
		p.row[f.column] = cell
	}
	switch f.role {
	case roleNone:
	case roleCommitTime:
		p.record.CommitTime = hudi.Time(cell.Text())
	case roleCommitSeqno:
		p.record.CommitSeqno = cell.Text()
	case roleKey:
		p.record.Key.Record = cell.Text()
	case rolePartition:
		p.record.Key.Partition = cell.Text()
	case roleOperation:
		p.deleted = p.deleted || cell.Text() == "D" || cell.Text() == "-U"
	case roleIsDeleted:
		p.deleted = p.deleted || cell.Boolean()
	case roleOrder:
		p.record.Order = cell.Long()
	}
	return nil
}

// composite assembles a nested value in p.nested. Values that point into it
// stay good when it grows: the old memory lives on with them.
func (p *plan) composite(c *composite) error {
	start := len(p.nested)
	out, null, err := c.root.value(p.nested, true)
	p.nested = out
	if err != nil {
		return err
	}
	if !null {
		p.row[c.column] = hudi.Nested(out[start:len(out):len(out)])
	}
	return nil
}
