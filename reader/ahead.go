package reader

import (
	"context"
	"io"

	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/table"
)

// opened is a file that is being opened.
type opened struct {
	done chan struct{}
	r    file
	err  error
}

// openings opens files of a partition in their order, and where opening takes a request
// some more meanwhile.
type openings struct {
	view      *table.View
	partition string
	files     []hudi.File // that nobody opens yet
	going     []*opened
}

func openAhead(ctx context.Context, v *table.View, partition string, files []hudi.File) *openings {
	o := &openings{view: v, partition: partition, files: files}
	o.begin(ctx)
	return o
}

// begin has as many files opened at once as are worth while.
func (o *openings) begin(ctx context.Context) {
	for len(o.files) > 0 && len(o.going) < o.view.Ahead() {
		one, f := &opened{done: make(chan struct{})}, o.files[0]
		o.files, o.going = o.files[1:], append(o.going, one)
		go func() {
			defer close(one.done)
			one.r, one.err = o.view.Open(ctx, o.partition, f)
		}()
	}
}

// next is the next file. It is the caller's to close.
func (o *openings) next(ctx context.Context) (file, error) {
	if len(o.going) == 0 {
		f := o.files[0]
		o.files = o.files[1:]
		return o.view.Open(ctx, o.partition, f)
	}
	one := o.going[0]
	<-one.done
	o.going = o.going[1:]
	o.begin(ctx)
	return one.r, one.err
}

// rest are the files that were opened and not asked for, to be closed. It waits for them.
func (o *openings) rest() (closers []io.Closer) {
	o.files = nil
	for _, one := range o.going {
		if <-one.done; one.err == nil {
			closers = append(closers, one.r)
		}
	}
	o.going = nil
	return closers
}

// announced is how many blocks of log files are told of before they are read.
const announced = 4

// announce tells the files of the next blocks that those will be read, when the i-th is
// about to be.
func announce(blocks []block, i int) {
	from := i + announced - 1
	if i == 0 {
		from = 0
	}
	for at := from; at < min(i+announced, len(blocks)); at++ {
		b := &blocks[at]
		b.file.Ahead(b.ContentOffset, b.ContentLength)
	}
}
