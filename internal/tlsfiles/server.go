package tlsfiles

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"
)

// Server is a server's certificate with its key, which can be replaced while it is used.
type Server struct {
	pair atomic.Pointer[tls.Certificate]
}

// LoadServer reads a server's certificate and its key from PEM files. It returns nil
// for two empty paths, and an error for an expired certificate.
func LoadServer(certPath, keyPath string) (*Server, error) {
	if certPath == "" && keyPath == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		return nil, fmt.Errorf("load tls_cert and tls_key: %w", err)
	}
	if cert.Leaf != nil && time.Now().After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("tls_cert has expired at %s", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	s := &Server{}
	s.pair.Store(&cert)
	return s, nil
}

// Config returns the settings of a server that shows the certificate to each new
// connection; nil if s is nil.
func (s *Server) Config() *tls.Config {
	if s == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pair.Load(), nil }}
}

// Adopt replaces the certificate by that of next, if both have one.
func (s *Server) Adopt(next *Server) {
	if s != nil && next != nil {
		s.pair.Store(next.pair.Load())
	}
}
