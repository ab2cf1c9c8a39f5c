//go:build unix

package kafkasource

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestSecured reads over TLS with a login that runs out again and again, from
// both generations of Kafka.
func TestSecured(t *testing.T) {
	t.Parallel()
	for _, version := range []string{servers.Kafka3, servers.Kafka4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r, addr, ca := secured(t, version)
			topic, rejects := r.topic(".delayed", 2), r.topic(".rejected", 1)
			safe := map[string]any{"brokers": []string{addr}, "reject_topic": rejects,
				"tls": map[string]any{"ca": ca}, "sasl": map[string]any{"mechanism": "plain", "username": "reader", "password": "correct horse"}}
			src := r.run(r.source([]string{topic}, safe))
			for n := range 5 {
				r.fill(topic, 2, n*100, (n+1)*100)
				r.store.await(t, (n+1)*100)
				time.Sleep(time.Second) // so that logins run out
			}
			r.produce(topic, 0, text("k", "untagged"))
			r.read(rejects, 1)
			if err := src.stop(); err != nil {
				t.Error(err)
			}
			wantOnce(t, r.store, 500)

			wrong := map[string]any{"brokers": []string{addr}, "tls": map[string]any{"ca": ca},
				"sasl": map[string]any{"mechanism": "plain", "username": "reader", "password": "wrong"}}
			if err := r.run(r.source([]string{topic}, wrong)).stop(); err != nil { // it waits for an operator
				t.Error(err)
			}
		})
	}
}

// secured starts a Kafka whose second listener, at the returned address, wants
// TLS and a login. A single node has no other use for that listener.
func secured(t *testing.T, version string) (r *rig, addr, ca string) {
	t.Helper()
	certificate, key := selfSigned(t)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	oneLine := func(pem []byte) string { return strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\\n") }
	listener := "listener.name.broker."
	r = rigOf(t, servers.Kafka(t, servers.KafkaOptions{Version: version, Config: map[string]string{
		"inter.broker.listener.name":                "CLIENT",
		"listener.security.protocol.map":            "CLIENT:PLAINTEXT,BROKER:SASL_SSL,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms":                   "PLAIN",
		listener + "plain.sasl.jaas.config":         `org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="correct horse";`,
		listener + "ssl.keystore.type":              "PEM",
		listener + "ssl.keystore.certificate.chain": oneLine(certificate),
		listener + "ssl.keystore.key":               oneLine(key),
		"connections.max.reauth.ms":                 "2000",
	}}))
	host, port, _ := net.SplitHostPort(r.Addrs()[0])
	number, _ := strconv.Atoi(port)
	return r, net.JoinHostPort(host, strconv.Itoa(number+1)), ca
}

// selfSigned makes a certificate for the loopback address, and its key.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}
