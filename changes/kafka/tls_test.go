package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/couch2hudi/couch2hudi/changes/kafka"
)

// TestTLS: an own authority is believed, the client's certificate is shown, and a
// broker that is not known is not spoken to.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, pair := certificate(t, dir)
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topicName), kfake.TLS(&tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	config, err := kafka.TLSFiles{CA: cert, Cert: cert, Key: key}.Config()
	if err != nil {
		t.Fatal(err)
	}
	src, err := kafka.Open(kafka.Options{Topic: topicName, Cluster: kafka.Cluster{Brokers: cluster.ListenAddrs(), TLS: config}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	if id, err := src.Identify(t.Context()); err != nil || id.Incarnation == "" {
		t.Errorf("%+v, %v", id, err)
	}
	for name, files := range map[string]kafka.TLSFiles{
		"no such authority": {CA: filepath.Join(dir, "none")},
		"a key for one":     {CA: key},
		"no such key":       {Cert: cert, Key: filepath.Join(dir, "none")},
	} {
		if _, err := files.Config(); !errors.Is(err, kafka.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificate makes one that is its own authority, for 127.0.0.1 and for clients.
func certificate(t *testing.T, dir string) (cert, key string, pair tls.Certificate) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}
