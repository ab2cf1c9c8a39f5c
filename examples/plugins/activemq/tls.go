package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/delaybridge/delaybridge/core"
)

// tlsConfig is the configuration of TLS. The zero value trusts the system's
// authorities and shows no certificate.
type tlsConfig struct {
	CA         string `json:"ca"`   // PEM file of the authorities to trust
	Cert       string `json:"cert"` // PEM file of our certificate
	Key        string `json:"key"`  // PEM file of its key
	ServerName string `json:"server_name"`
	// InsecureSkipVerify leaves the check of the broker's certificate out.
	InsecureSkipVerify bool `json:"insecure_skip_verify"`
}

// load reads the files. An error names the field.
func (c *tlsConfig) load() (*tls.Config, error) {
	loaded := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify} // the operator's explicit wish
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, core.Invalidf("tls.ca", "can't be read: %v", err)
		}
		loaded.RootCAs = x509.NewCertPool()
		if !loaded.RootCAs.AppendCertsFromPEM(pem) {
			return nil, core.Invalidf("tls.ca", "holds no certificate in PEM")
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, core.Invalidf("tls.cert", "can't be used together with tls.key: %v", err)
		}
		loaded.Certificates = []tls.Certificate{pair}
	}
	return loaded, nil
}
