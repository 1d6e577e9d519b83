package hms

import (
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/beltran/gohive/hive_metastore"
)

// A location that is not there is not written, one that is there is, and what is
// around it stays.
func TestUnsaid(t *testing.T) {
	for _, location := range []string{"", "file:///data"} {
		b := thrift.NewTMemoryBuffer()
		p := thrift.NewTBinaryProtocolConf(b, nil)
		d := hive_metastore.NewStorageDescriptor()
		d.Location, d.InputFormat = location, "in"
		d.SerdeInfo = hive_metastore.NewSerDeInfo()
		d.SerdeInfo.Parameters = map[string]string{"location": ""}
		if err := d.Write(t.Context(), &unsaid{TProtocol: p}); err != nil {
			t.Fatal(err)
		}
		plain := thrift.NewTMemoryBuffer()
		if err := d.Write(t.Context(), thrift.NewTBinaryProtocolConf(plain, nil)); err != nil {
			t.Fatal(err)
		}
		want := 0
		if location == "" {
			want = 7 // the field's type and number, and the text's length
		}
		if got := plain.Len() - b.Len(); got != want {
			t.Errorf("location %q: %d bytes less, want %d", location, got, want)
		}
		n := hive_metastore.NewStorageDescriptor()
		if err := n.Read(t.Context(), p); err != nil || !n.Equals(d) {
			t.Errorf("read back %v, %v", n, err)
		}
	}
}
