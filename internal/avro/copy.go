package avro

import "fmt"

// Append appends the datum at the start of src, copied to the reader's schema,
// to dst. The error wraps ErrData.
func (r *Resolver) Append(dst, src []byte) (out, rest []byte, err error) {
	c := copier{dst: dst}
	rest, err = c.copy(r.root, src, 0)
	return c.dst, rest, err
}

// Same says whether the two schemas encode alike, so that a datum needs no copy.
func (r *Resolver) Same() bool { return r.root.same }

type copier struct{ dst []byte }

func (c *copier) copy(s *step, b []byte, depth int) (rest []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrData, maxDepth)
	}
	w := s.writer
	switch {
	case s.same:
		if rest, err = skip(w, b, depth); err == nil {
			c.dst = append(c.dst, b[:len(b)-len(rest)]...)
		}
		return rest, err
	case w.Kind == Union:
		return c.union(s, b, depth)
	case s.reader.Kind == Union:
		c.dst = AppendLong(c.dst, int64(s.wrap))
		return c.copy(s.sub[0], b, depth+1)
	case w.Kind == Record:
		return c.record(s, b, depth)
	case w.Kind == Array || w.Kind == Map:
		return c.items(s, b, depth)
	}
	n, err := scalarSize(w, b)
	if err != nil {
		return nil, err
	}
	return b[n:], c.scalar(s, b[:n])
}

func (c *copier) union(s *step, b []byte, depth int) ([]byte, error) {
	i, b, err := ReadBranch(s.writer, b)
	if err != nil {
		return nil, err
	}
	if s.sub[i] == nil {
		return nil, fmt.Errorf("%w: a %s where %s is wanted", ErrData, s.writer.Branches[i], s.reader)
	}
	if s.branch[i] >= 0 {
		c.dst = AppendLong(c.dst, int64(s.branch[i]))
	}
	return c.copy(s.sub[i], b, depth+1)
}

// record finds where the writer's fields begin, then writes the reader's in
// the reader's order.
func (c *copier) record(s *step, b []byte, depth int) (rest []byte, err error) {
	var few [16][]byte
	starts := few[:0]
	for i := range s.writer.Fields {
		starts = append(starts, b)
		if b, err = skip(s.writer.Fields[i].Type, b, depth+1); err != nil {
			return nil, err
		}
	}
	for i, at := range s.fields {
		if at < 0 {
			if _, null, ok := s.reader.Fields[i].Type.Optional(); ok {
				c.dst = AppendLong(c.dst, int64(null))
			}
			continue
		}
		if _, err = c.copy(s.sub[at], starts[at], depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (c *copier) items(s *step, b []byte, depth int) ([]byte, error) {
	for {
		count, rest, err := ReadBlock(s.writer, b)
		if err != nil {
			return nil, err
		}
		b = rest
		c.dst = AppendLong(c.dst, count)
		if count == 0 {
			return b, nil
		}
		for range count {
			if s.writer.Kind == Map {
				key, rest, err := ReadText(b)
				if err != nil {
					return nil, err
				}
				c.dst, b = append(AppendLong(c.dst, int64(len(key))), key...), rest
			}
			if b, err = c.copy(s.sub[0], b, depth+1); err != nil {
				return nil, err
			}
		}
	}
}

// scalar widens the datum that b is, checked by scalarSize.
func (c *copier) scalar(s *step, b []byte) error {
	switch w, t := s.writer, s.reader; {
	case t.Kind == Float && (w.Kind == Int || w.Kind == Long):
		v, _ := ReadLong(b)
		c.dst = AppendFloat(c.dst, float32(v))
	case t.Kind == Double && (w.Kind == Int || w.Kind == Long):
		v, _ := ReadLong(b)
		c.dst = AppendDouble(c.dst, float64(v))
	case t.Kind == Double && w.Kind == Float:
		c.dst = AppendDouble(c.dst, float64(float32At(b)))
	case w.Kind == Enum:
		v, _ := ReadLong(b)
		if s.symbols[v] < 0 {
			return fmt.Errorf("%w: symbol %q is not one of the reader's", ErrData, w.Symbols[v])
		}
		c.dst = AppendLong(c.dst, int64(s.symbols[v]))
	default:
		c.dst = append(c.dst, b...)
	}
	return nil
}
