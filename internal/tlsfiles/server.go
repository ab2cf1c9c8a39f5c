package tlsfiles

import (
	"crypto/tls"
	"fmt"
	"time"
)

// LoadServer reads a server's certificate and its key from PEM files. It returns nil
// for two empty paths, and an error for an expired certificate.
func LoadServer(certPath, keyPath string) (*tls.Config, error) {
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
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
