package amqp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// authority issues certificates for the name broker.test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

// issue writes a certificate and its key into dir.
func (a *authority) issue(t testing.TB, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, filepath.Join(dir, name+".crt"), "CERTIFICATE", der), writePEM(t, filepath.Join(dir, name+".key"), "PRIVATE KEY", keyDER)
}

func writePEM(t testing.TB, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// encrypted stands before target, speaks TLS and asks for a certificate.
func (a *authority) encrypted(t testing.TB, target, certFile, keyFile string) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair},
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
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

func TestTLS(t *testing.T) {
	r := sharedRabbit(t)
	ours, theirs, dir := newAuthority(t), newAuthority(t), t.TempDir()
	ca := writePEM(t, filepath.Join(dir, "ca.crt"), "CERTIFICATE", ours.cert.Raw)
	otherCA := writePEM(t, filepath.Join(dir, "other.crt"), "CERTIFICATE", theirs.cert.Raw)
	brokerCert, brokerKey := ours.issue(t, dir, "broker.test")
	cert, key := ours.issue(t, dir, "client.test")
	strangerCert, strangerKey := theirs.issue(t, dir, "stranger.test")
	url := "amqps://guest:guest@" + ours.encrypted(t, r.Addr(), brokerCert, brokerKey) + "/"
	queue := r.queue(t, nil)
	settings := func(ca, cert, key, name string) map[string]any {
		return map[string]any{"tls": map[string]any{"ca": ca, "cert": cert, "key": key, "server_name": name}}
	}
	tests := []struct {
		name   string
		config map[string]any
		url    string
		want   core.Class // negative: success
	}{
		{"all in order", settings(ca, cert, key, "broker.test"), url, -1},
		{"unknown authority", settings(otherCA, cert, key, "broker.test"), url, core.Blocked},
		{"another name", settings(ca, cert, key, "other.test"), url, core.Blocked},
		{"a stranger's certificate", settings(ca, strangerCert, strangerKey, "broker.test"), url, core.Blocked},
		{"broker without TLS", settings(ca, cert, key, "broker.test"), "amqps://" + r.Addr() + "/", core.Blocked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openTest(t, tt.config, tt.url)
			closeAtEnd(t, s)
			results, _ := deliver(t, s, 10*time.Second, message(queue, "secret"))
			checkClass(t, results[0], tt.want)
		})
	}
}
