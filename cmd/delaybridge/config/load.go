package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Load reads the configuration from a file, and checks the files that it names
// and who can read them. The error is Faults, or says why path can't be read.
func Load(path string, options Options) (*Config, error) {
	text, mode, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Decode(path, text, options)
	if err != nil {
		return nil, err
	}
	d := decoder{source: c.source, options: options.withDefaults()}
	if isOpen(mode) {
		for _, e := range d.exposed {
			d.failAt(e.at, e.path, "readable-secret", "is a secret in a file that is readable by all users; chmod o-r %s, or write ${VAR}", path)
		}
	}
	d.checkFiles(c)
	if err := c.source.render(d.faults); err != nil {
		return nil, err
	}
	c.addContents()
	return c, nil
}

// readFile reads no more than one byte too many.
func readFile(path string) (text []byte, mode os.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	return text, info.Mode(), err
}

// isOpen reports whether everybody can read a file. Other systems have no such
// bits.
func isOpen(mode os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.IsRegular() && mode&0o004 != 0
}

func (d *decoder) checkFiles(c *Config) {
	t := c.Store.Redis.TLS
	if t.CA != "" {
		if _, err := readCA(t.CA); err != nil {
			d.fail("store.redis.tls.ca", "bad-file", "%s", err)
		}
	}
	d.checkKeyPair("store.redis.tls.cert", t.Cert, "store.redis.tls.key", t.Key)
	d.checkKeyPair("http.tls_cert", c.HTTP.TLSCert, "http.tls_key", c.HTTP.TLSKey)
	d.checkKeyPair("grpc.tls_cert", c.GRPC.TLSCert, "grpc.tls_key", c.GRPC.TLSKey)
	d.checkKeyPair("metrics.tls_cert", c.Metrics.TLSCert, "metrics.tls_key", c.Metrics.TLSKey)
}

func (d *decoder) checkKeyPair(certPath, cert, keyPath, key string) {
	if cert == "" {
		return
	}
	if info, err := os.Stat(key); err == nil && isOpen(info.Mode()) {
		d.fail(keyPath, "readable-secret", "is a private key that is readable by all users; chmod o-r %s", key)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		d.fail(certPath, "bad-file", "%s", err)
		return
	}
	if now := time.Now(); pair.Leaf != nil && now.After(pair.Leaf.NotAfter) {
		d.fail(certPath, "bad-file", "the certificate expired on %s", pair.Leaf.NotAfter.Format(time.DateOnly))
	}
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return pool, nil
}

// Client returns what crypto/tls needs to connect, nil if TLS is not enabled.
func (t TLS) Client() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pool, err := readCA(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read authorities: %w", err)
		}
		config.RootCAs = pool
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
