package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles say where a configuration of TLS is kept. The zero value trusts the
// system's authorities and shows no certificate.
type TLSFiles struct {
	// CA is a PEM file of the authorities to trust instead of the system's.
	CA string
	// Cert and Key are PEM files of the client's certificate and its key. They are
	// read anew for each connection, so that they may be renewed.
	Cert, Key string
	// ServerName is the name in the brokers' certificates, when it is not their host.
	ServerName string
	// InsecureSkipVerify takes any broker for the right one.
	InsecureSkipVerify bool
}

// Config reads the files. Its errors are ErrOptions.
func (f TLSFiles) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName, InsecureSkipVerify: f.InsecureSkipVerify} //nolint:gosec // the operator asks for it
	if f.CA != "" {
		data, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: read authorities: %w", ErrOptions, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%w: %s holds no certificate in PEM", ErrOptions, f.CA)
		}
	}
	if f.Cert == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: load the client's certificate: %w", ErrOptions, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}
