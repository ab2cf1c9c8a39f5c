package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

type tlsConfig struct {
	CA                 string `json:"ca"`
	Cert               string `json:"cert"`
	Key                string `json:"key"`
	ServerName         string `json:"server_name"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
}

// load reads the files. None configured is the system's trust and no certificate.
func (c *tlsConfig) load() (*tls.Config, error) {
	loaded := &tls.Config{MinVersion: tls.VersionTLS12}
	if c == nil {
		return loaded, nil
	}
	loaded.ServerName = c.ServerName
	loaded.InsecureSkipVerify = c.InsecureSkipVerify // the operator's explicit wish
	if err := c.loadCA(loaded); err != nil {
		return nil, err
	}
	return loaded, c.loadCertificate(loaded)
}

func (c *tlsConfig) loadCA(to *tls.Config) error {
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

func (c *tlsConfig) loadCertificate(to *tls.Config) error {
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
