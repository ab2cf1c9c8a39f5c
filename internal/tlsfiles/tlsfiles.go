// Package tlsfiles has the TLS settings of sinks and sources, with the same errors in
// each.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Config has the settings under the key "tls". The zero value trusts the system's
// authorities and sends no certificate.
type Config struct {
	CA                 string `json:"ca"`   // PEM file of the authorities to trust
	Cert               string `json:"cert"` // PEM file of the client certificate
	Key                string `json:"key"`  // PEM file of its key
	ServerName         string `json:"server_name"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
}

// Load reads the files; a nil Config is the zero value. Every error is a
// *core.InvalidError that names the field and shows no secret.
func (c *Config) Load() (*tls.Config, error) {
	loaded := &tls.Config{MinVersion: tls.VersionTLS12}
	if c == nil {
		return loaded, nil
	}
	loaded.ServerName = c.ServerName
	loaded.InsecureSkipVerify = c.InsecureSkipVerify // the operator's explicit wish
	if err := c.loadCA(loaded); err != nil {
		return nil, err
	}
	if err := c.loadCertificate(loaded); err != nil {
		return nil, err
	}
	return loaded, nil
}

func (c *Config) loadCA(to *tls.Config) error {
	if c.CA == "" {
		return nil
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return core.Invalidf("tls.ca", "can't be read: %v", err)
	}
	to.RootCAs = x509.NewCertPool()
	if !to.RootCAs.AppendCertsFromPEM(pem) {
		return core.Invalidf("tls.ca", "holds no certificate in PEM")
	}
	return nil
}

func (c *Config) loadCertificate(to *tls.Config) error {
	switch {
	case c.Cert == "" && c.Key == "":
		return nil
	case c.Key == "":
		return core.Invalidf("tls.key", "is missing: tls.cert is of no use without it")
	case c.Cert == "":
		return core.Invalidf("tls.cert", "is missing: tls.key is of no use without it")
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return core.Invalidf("tls.cert", "can't be used together with tls.key: %v", err)
	}
	if pair.Leaf != nil && time.Now().After(pair.Leaf.NotAfter) {
		return core.Invalidf("tls.cert", "has expired on %s", pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	to.Certificates = []tls.Certificate{pair}
	return nil
}
