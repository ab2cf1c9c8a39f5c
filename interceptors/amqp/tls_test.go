//go:build unix

package amqpsource

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
)

// encrypted stands before target and speaks TLS as broker.test; ca is the
// certificate to trust.
func encrypted(t testing.TB, target string) (addr, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker.test"}, DNSNames: []string{"broker.test"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
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
	return listener.Addr().String(), ca
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
	r := newRig(t)
	in := r.queue(".delayed", nil)
	addr, ca := encrypted(t, r.Addr())
	r.publish(in, numbered(0, 1)...)
	config := func(name string) map[string]any {
		return map[string]any{"urls": []string{"amqps://guest:guest@" + addr + "/"}, "queues": []string{in}, "tls": map[string]any{"ca": ca, "server_name": name}}
	}
	stranger := r.run(r.source(config("other.test")))
	right := r.run(r.source(config("broker.test")))
	r.store.Await(t, 1)
	for _, src := range []*running{right, stranger} {
		if err := src.Stop(); err != nil {
			t.Error(err)
		}
	}
	if stranger.Report().Parked != 0 || right.Report().Parked != 1 {
		t.Errorf("%+v, %+v", stranger.Report(), right.Report())
	}
}
