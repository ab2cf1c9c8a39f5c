package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/tlsfiles"
)

const (
	defaultURL   = "http://127.0.0.1:7420"
	envURL       = "DELAYBRIDGE_URL"
	envToken     = "DELAYBRIDGE_TOKEN"
	envTokenFile = "DELAYBRIDGE_TOKEN_FILE"
	envCA        = "DELAYBRIDGE_CA"
	envCert      = "DELAYBRIDGE_CERT"
	envCertKey   = "DELAYBRIDGE_CERT_KEY"
	envContext   = "DELAYBRIDGE_CONTEXT"
)

// connection is how a bridge is reached. This JSON is that of a stored context, which
// never holds a token itself.
type connection struct {
	URL       string `json:"url"`
	Token     string `json:"-"`
	TokenFile string `json:"token_file,omitempty"`
	CA        string `json:"ca,omitempty"`
	Cert      string `json:"cert,omitempty"`
	CertKey   string `json:"cert_key,omitempty"`
}

// add makes flags of all but the token. The key of a certificate can't be --key,
// which is the key of a message.
func (c *connection) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.URL, "url", "", "URL of the bridge (env "+envURL+"; default "+defaultURL+")")
	flags.StringVar(&c.TokenFile, "token-file", "", "path of a file with the bearer token (env "+envTokenFile+")")
	flags.StringVar(&c.CA, "ca", "", "path of a PEM file with the authorities to trust (env "+envCA+"; default: the system's)")
	flags.StringVar(&c.Cert, "cert", "", "path of a PEM file with the client certificate (env "+envCert+")")
	flags.StringVar(&c.CertKey, "cert-key", "", "path of a PEM file with its key (env "+envCertKey+")")
}

func connectionOfEnv() connection {
	return connection{URL: os.Getenv(envURL), Token: os.Getenv(envToken), TokenFile: os.Getenv(envTokenFile),
		CA: os.Getenv(envCA), Cert: os.Getenv(envCert), CertKey: os.Getenv(envCertKey)}
}

// or completes c with what only next has. Token and token file are one setting, and
// so are certificate and key.
func (c connection) or(next connection) connection {
	c.URL, c.CA = cmp.Or(c.URL, next.URL), cmp.Or(c.CA, next.CA)
	if c.Token == "" && c.TokenFile == "" {
		c.Token, c.TokenFile = next.Token, next.TokenFile
	}
	if c.Cert == "" && c.CertKey == "" {
		c.Cert, c.CertKey = next.Cert, next.CertKey
	}
	return c
}

// config reads the files. Every error is one of usage.
func (c connection) config() (client.Config, error) {
	config := client.Config{URL: cmp.Or(c.URL, defaultURL), Token: c.Token}
	if c.Token == "" && c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return config, coded(exitUsage, fmt.Errorf("read the token: %w", err))
		}
		if config.Token = strings.TrimSpace(string(text)); config.Token == "" {
			return config, usageError("read the token: " + c.TokenFile + " is empty")
		}
	}
	files := tlsfiles.Config{CA: c.CA, Cert: c.Cert, Key: c.CertKey}
	if files == (tlsfiles.Config{}) {
		return config, nil
	}
	var err error
	if config.TLS, err = files.Load(); err != nil {
		return config, tlsError(err)
	}
	return config, nil
}

// tlsError names the flag instead of the setting of a configuration file.
func tlsError(err error) error {
	e, ok := errors.AsType[*core.InvalidError](err)
	if !ok {
		return coded(exitUsage, err)
	}
	flags := map[string]string{"tls.ca": "--ca", "tls.cert": "--cert", "tls.key": "--cert-key"}
	return usageError(cmp.Or(flags[e.Field], e.Field) + " " + e.Reason)
}
