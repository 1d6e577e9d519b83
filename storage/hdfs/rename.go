package hdfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"unsafe"

	"github.com/colinmarc/hdfs/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The library's Rename always overwrites. HDFS itself can rename without, in one
// step, and that is what put-if-absent needs; the library has the call, with its
// authentication and its way around dead name nodes, but shows it to nobody. So
// it is taken out of the client by its field's name. TestRenameIsReachable fails
// when a later version of the library has it no more.

// caller is the library's connection with the name nodes.
type caller interface {
	Execute(method string, request, response proto.Message) error
}

// renamer makes calls of rename2.
type renamer struct {
	conn              caller
	request, response protoreflect.MessageType
}

func newRenamer(c *hdfs.Client) (renamer, error) {
	const why = "this build's HDFS library has no rename that does not overwrite"
	var r renamer
	field := reflect.ValueOf(c).Elem().FieldByName("namenode")
	if !field.IsValid() || field.Kind() != reflect.Pointer {
		return r, errors.New(why)
	}
	conn, ok := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface().(caller) //nolint:gosec // see above
	if !ok {
		return r, errors.New(why)
	}
	r.conn = conn
	var err error
	if r.request, err = protoregistry.GlobalTypes.FindMessageByName("hadoop.hdfs.Rename2RequestProto"); err != nil {
		return r, fmt.Errorf("%s: %w", why, err)
	}
	if r.response, err = protoregistry.GlobalTypes.FindMessageByName("hadoop.hdfs.Rename2ResponseProto"); err != nil {
		return r, fmt.Errorf("%s: %w", why, err)
	}
	return r, nil
}

// message is ClientNamenodeProtocol.proto's Rename2RequestProto.
func (r renamer) message(from, to string, overwrite bool) proto.Message {
	m := r.request.New()
	for name, v := range map[protoreflect.Name]any{"src": from, "dst": to, "overwriteDest": overwrite} {
		m.Set(r.request.Descriptor().Fields().ByName(name), protoreflect.ValueOf(v))
	}
	return m.Interface()
}

func (r renamer) rename(from, to string, overwrite bool) error {
	err := r.conn.Execute("rename2", r.message(from, to, overwrite), r.response.New().Interface())
	if err == nil {
		return nil
	}
	var said remote
	if errors.As(err, &said) {
		switch said.Exception() {
		case "java.io.FileNotFoundException":
			err = fs.ErrNotExist
		case "org.apache.hadoop.fs.FileAlreadyExistsException":
			err = fs.ErrExist
		case "org.apache.hadoop.security.AccessControlException":
			err = fs.ErrPermission
		}
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
