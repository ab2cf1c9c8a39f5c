package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// TB is what the package needs of testing.TB. It is an interface of its own so
// that a program can start servers too.
type TB interface {
	Helper()
	Name() string
	TempDir() string
	Cleanup(func())
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Certificate writes a certificate for broker.test and 127.0.0.1, which is its own
// authority and ends at until, and its key.
func Certificate(t TB, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		DNSNames: []string{"broker.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	encoded, keyErr := x509.MarshalPKCS8PrivateKey(private)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(err, keyErr,
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600)); err != nil {
		t.Fatalf("make a certificate: %v", err)
	}
	return cert, key
}

// TLSFront stands before target, a host:port, speaks TLS with a certificate, and asks
// for one of clientCA, unless that is empty.
func TLSFront(t TB, target, cert, key, clientCA string) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatalf("%v", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clientCA != "" {
		text, err := os.ReadFile(clientCA)
		if err != nil {
			t.Fatalf("%v", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.ClientCAs.AppendCertsFromPEM(text)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(near, target)
		}
	}()
	return listener.Addr().String()
}

func forward(near net.Conn, target string) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	var pumps sync.WaitGroup
	pumps.Go(func() { defer far.Close(); io.Copy(far, near) })
	pumps.Go(func() { defer near.Close(); io.Copy(near, far) })
	pumps.Wait()
}
