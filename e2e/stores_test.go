//go:build oracle

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/couch2hudi/couch2hudi/storage"
	"github.com/couch2hudi/couch2hudi/storage/cloud"
	"github.com/couch2hudi/couch2hudi/storage/storagetest"
)

// objectStore is a stand-in for a cloud's store.
type objectStore struct {
	name, scheme string
	env          map[string]string
	query        func(address string) url.Values
	// make makes the bucket; it fails until the store answers.
	make func(ctx context.Context, address string) error
	// rounds is how many rounds of races it gets.
	rounds int
	// serial lets one write in at a time: the stand-in looks at a condition and
	// writes afterwards, where the real store does both at once.
	serial bool
	// refuses says which names it cannot have.
	refuses func(name string) bool
}

// azuriteKey is the key that azurite's documentation gives to all of its users.
const azuriteKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

func objectStores() []objectStore {
	return []objectStore{minio(), moto(),
		{name: "gcs", scheme: cloud.SchemeGCS, rounds: 3,
			query: func(address string) url.Values {
				return url.Values{"endpoint": {"http://" + address + "/storage/v1/"}}
			},
			make: func(ctx context.Context, address string) error {
				return ask(ctx, http.MethodPost, "http://"+address+"/storage/v1/b?project=p", `{"name":"lake"}`)
			}},
		{name: "azurite", scheme: cloud.SchemeAzure, rounds: 3,
			env: map[string]string{"AZURE_STORAGE_ACCOUNT": "devstoreaccount1", "AZURE_STORAGE_KEY": azuriteKey},
			query: func(address string) url.Values {
				return url.Values{"domain": {address}, "protocol": {"http"}}
			},
			make:    makeContainer,
			refuses: func(name string) bool { return strings.Contains(name, `\`) }},
	}
}

// minio is the one that people run themselves as well.
func minio() objectStore {
	return objectStore{name: "minio", scheme: cloud.SchemeS3, rounds: 3, env: s3Env, query: s3Query, make: makeBucket}
}

// moto is a stand-in for Amazon's.
func moto() objectStore {
	return objectStore{name: "moto", scheme: cloud.SchemeS3, rounds: 3, serial: true, env: s3Env, query: s3Query, make: makeBucket}
}

// s3Stores are what the long tests of writers in S3 run on: in their short form MinIO,
// which looks at a condition and writes in one step, as Amazon's does.
func s3Stores() []objectStore {
	if os.Getenv("E2E_FULL") != "" {
		return []objectStore{minio(), moto()}
	}
	return []objectStore{minio()}
}

// s3Env is what both the stores and those who ask them take.
var s3Env = map[string]string{"AWS_ACCESS_KEY_ID": "oracle", "AWS_SECRET_ACCESS_KEY": "of-the-tests", "AWS_REGION": "us-east-1"}

func s3Query(address string) url.Values { return url.Values{"endpoint": {"http://" + address}} }

func makeBucket(ctx context.Context, address string) error {
	endpoint := "http://" + address
	client := s3.New(s3.Options{Region: s3Env["AWS_REGION"], BaseEndpoint: &endpoint, UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s3Env["AWS_ACCESS_KEY_ID"], SecretAccessKey: s3Env["AWS_SECRET_ACCESS_KEY"]}, nil
		})})
	bucket := "lake"
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	var mine *types.BucketAlreadyOwnedByYou
	if errors.As(err, &mine) {
		return nil
	}
	return err
}

func makeContainer(ctx context.Context, address string) error {
	key, err := azblob.NewSharedKeyCredential("devstoreaccount1", azuriteKey)
	if err != nil {
		return err
	}
	client, err := azblob.NewClientWithSharedKeyCredential("http://"+address+"/devstoreaccount1", key, nil)
	if err != nil {
		return err
	}
	_, err = client.CreateContainer(ctx, "lake", nil)
	if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil
	}
	return err
}

func ask(ctx context.Context, method, address, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, address, answer.Status)
	}
	return nil
}

// start starts the store with the bucket lake, and stops it before its folder goes.
func (s *objectStore) start(t *testing.T) (address string) {
	t.Helper()
	home := os.Getenv("ORACLE_DIR")
	if home == "" {
		home = "../.cache/oracle"
	}
	if _, err := os.Stat(filepath.Join(home, "stores", ".installed")); err != nil {
		t.Fatalf("no object stores: %v\ninstall them with: make oracle", err)
	}
	for name, value := range s.env {
		t.Setenv(name, value)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(address)
	var said bytes.Buffer
	cmd := exec.Command("oracle/stores/start-store.sh", home, s.name, port, t.TempDir())
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", s.name, said.String())
		}
	})
	for deadline := time.Now().Add(engineStart); ; {
		if err = s.make(t.Context(), address); err == nil {
			if s.serial {
				return oneWrite(t, address)
			}
			return address
		}
		select {
		case <-ended:
			t.Fatalf("%s ended: %v", s.name, err)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", s.name, err)
		}
	}
}

// oneWrite is a proxy that lets one write in at a time.
func oneWrite(t *testing.T, address string) string {
	t.Helper()
	var mu sync.Mutex
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			mu.Lock()
			defer mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestObjectStores is about tables in the object stores of clouds.
func TestObjectStores(t *testing.T) {
	for _, s := range objectStores() {
		t.Run(s.name, func(t *testing.T) {
			address := s.start(t)
			t.Run("conformance", func(t *testing.T) {
				var prefixes atomic.Int64
				storagetest.RunWith(t, func(t *testing.T) storage.Driver {
					d, err := cloud.Open(t.Context(), s.scheme, "lake", fmt.Sprintf("suite/%d", prefixes.Add(1)), s.query(address), &cloud.Options{PartBytes: 5 << 20})
					if err != nil {
						t.Fatal(err)
					}
					return d
				}, storagetest.Options{Rounds: s.rounds, Refuses: s.refuses})
			})
			t.Run("table", func(t *testing.T) {
				followInto(t, s.scheme+"://lake/tables/docs?"+s.query(address).Encode())
			})
		})
	}
}

// followInto follows a database into a table, and compares every row of it with the
// documents: after inserts, changes and deletions, and after a compaction.
func followInto(t *testing.T, table string) {
	t.Helper()
	w := newTableWriter(t, modelOptions{})
	run := []string{"run", "--once", "--source", w.source, "--table", table, "--listen", "off"}
	for _, then := range []func(){func() {}, func() { couch2hudi(t, "compact", "--table", table) }, func() {}} {
		if err := w.data.next(100); err != nil {
			t.Fatal(err)
		}
		couch2hudi(t, run...)
		then()
		rows := map[string]string{}
		for line := range strings.Lines(couch2hudi(t, "query", "--table", table, "--columns", "_id,_doc")) {
			var r struct {
				ID  string `json:"_id"`
				Doc string `json:"_doc"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			rows[r.ID] = r.Doc
		}
		living := 0
		for _, d := range documentsOf(w.db) {
			_, there := rows[d.ID]
			if there == d.Deleted {
				t.Errorf("%q: in the table %v, deleted %v", d.ID, there, d.Deleted)
			}
			if !d.Deleted {
				living++
			}
		}
		if living != len(rows) || living == 0 {
			t.Errorf("%d rows of %d documents", len(rows), living)
		}
		couch2hudi(t, "verify", "--source", w.source, "--table", table)
	}
}
