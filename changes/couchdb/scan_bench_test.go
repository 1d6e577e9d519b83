package couchdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// feedOf is a normal feed of n rows of about 600 bytes.
func feedOf(n int, seqs bool) []byte {
	var b bytes.Buffer
	b.WriteString("{\"results\":[\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\r\n")
		}
		seq := "null"
		if seqs {
			seq = `"` + strconv.Itoa(i) + "-" + strings.Repeat("g1AAAAB2eJzL", 8) + `"`
		}
		fmt.Fprintf(&b, `{"seq":%s,"id":"order-%08d","changes":[{"rev":"1-917fa2381192822767f010b95b45325b"}],"doc":{"_id":"order-%08d","_rev":"1-917fa2381192822767f010b95b45325b",`+
			`"customer":"customer-%d","createdAt":"2024-01-05T10:20:30Z","total":%d.25,"paid":true,"items":[{"sku":"A-1","n":2,"price":19.9},{"sku":"B-22","n":1,"price":5}],`+
			`"address":{"street":"1 Long Street","city":"Cape Town","zip":"8001"},"note":"please \"ring\" the bell twice, then wait","tags":["a","b","c"],"channel":"web","currency":"ZAR",`+
			`"padding":"%s"}}`, seq, i, i, i%977, i, strings.Repeat("x", 60))
	}
	b.WriteString("\n],\n\"last_seq\":\"9-abc\",\"pending\":0}\n\n")
	return b.Bytes()
}

func BenchmarkRows(b *testing.B) {
	const n = 2000
	for _, seqs := range []bool{false, true} {
		feed := feedOf(n, seqs)
		b.Run(fmt.Sprintf("seqs=%v", seqs), func(b *testing.B) {
			b.SetBytes(int64(len(feed)))
			b.ReportAllocs()
			for b.Loop() {
				r := &rows{lines: newLines(bytes.NewReader(feed), 1<<20)}
				p := &parser{}
				count := 0
				for {
					raw, bad, err := r.next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					c, _ := p.change(&r.envelope, raw, bad)
					if c.Defect != "" {
						b.Fatal(c.Defect)
					}
					count++
				}
				if count != n {
					b.Fatal(count)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
			b.ReportMetric(float64(len(feed)/n), "bytes/row")
		})
	}
}
