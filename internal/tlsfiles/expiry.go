package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// expiresSoon is when there is still time to renew a certificate.
const expiresSoon = 14 * 24 * time.Hour

// Expiry tells an operator until when a certificate is valid.
func Expiry(about string, cert *x509.Certificate) core.Finding {
	f := core.Finding{Level: core.FindingOK, About: about, Text: "certificate is valid until " + cert.NotAfter.UTC().Format(time.RFC3339)}
	switch left := time.Until(cert.NotAfter); {
	case left <= 0:
		f.Level, f.Text, f.Fix = core.FindingProblem, "certificate has expired on "+cert.NotAfter.UTC().Format(time.RFC3339), "renew it"
	case left < expiresSoon:
		f.Level, f.Fix = core.FindingWarning, fmt.Sprintf("renew it within %.0f days", left.Hours()/24)
	}
	return f
}

// Witness returns config with the change that a handshake that succeeds calls seen with the
// server's certificate; nil for nil.
func Witness(config *tls.Config, seen func(*x509.Certificate)) *tls.Config {
	if config == nil {
		return nil
	}
	config = config.Clone()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		seen(state.PeerCertificates[0])
		return nil
	}
	return config
}
