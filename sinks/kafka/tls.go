package kafka

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

func (c *config) setTLS(s *settings) error {
	if c.TLS == nil {
		return nil
	}
	s.tls = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.TLS.ServerName,
		InsecureSkipVerify: c.TLS.InsecureSkipVerify, // the operator's explicit wish
	}
	if err := c.TLS.setCA(s.tls); err != nil {
		return err
	}
	return c.TLS.setCertificate(s.tls)
}

func (c *tlsConfig) setCA(to *tls.Config) error {
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

func (c *tlsConfig) setCertificate(to *tls.Config) error {
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
