package couchdb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// TLSFiles say how server and client prove to each other who they are.
type TLSFiles struct {
	// CA is a PEM file of the authorities that may vouch for the server; by
	// default those of the system. It is read once.
	CA string
	// Cert and Key are PEM files of the client's certificate, with those
	// between it and its authority, and of its private key. They are read
	// anew for every connection.
	Cert, Key string
	// ServerName is the name that the server's certificate must bear; by
	// default the URL's host.
	ServerName string
	// InsecureSkipVerify takes any server for the right one, which gives it
	// the credentials. Events.Warned is told.
	InsecureSkipVerify bool
}

// tlsConfig is Options.TLS with the files in it.
func (o Options) tlsConfig(where address) (*tls.Config, error) {
	f := o.TLSFiles
	if f == (TLSFiles{}) {
		return o.TLS, nil
	}
	switch {
	case o.Transport != nil:
		return nil, fmt.Errorf("%w: TLSFiles do nothing for a Transport that is given", ErrOptions)
	case where.scheme != "https":
		return nil, fmt.Errorf("%w: TLSFiles are given, and URL is neither couchdbs:// nor https://", ErrOptions)
	case (f.Cert == "") != (f.Key == ""):
		return nil, fmt.Errorf("%w: TLSFiles.Cert and Key go together", ErrOptions)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		c = o.TLS.Clone()
	}
	if f.ServerName != "" {
		c.ServerName = f.ServerName
	}
	c.InsecureSkipVerify = c.InsecureSkipVerify || f.InsecureSkipVerify
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: read the CA file: %w", ErrOptions, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: CA file %s holds no certificate in PEM", ErrOptions, f.CA)
		}
	}
	if f.Cert != "" {
		if _, err := f.pair(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return f.pair() }
	}
	return c, nil
}

func (f TLSFiles) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	return &pair, nil
}

// refusedCertificate says that the server broke a handshake off over the
// client's certificate. Package tls has no type for an alert that came in.
func refusedCertificate(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certif")
}
