package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/delaybridge/delaybridge/core"
)

func TestDefaults(t *testing.T) {
	s, err := decode(json.RawMessage(`{"brokers": ["a:9092", "[::1]:9093"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.clientID != "delaybridge" || s.compression != 0 || s.tls != nil || s.sasl != nil || s.maxBatchBytes != 1048588 ||
		s.metadataTTL != time.Second || s.dialTimeout != 3*time.Second || s.requestTimeout != 5*time.Second ||
		s.idleTimeout != 30*time.Second || s.connections != 4 || s.seeds[1] != "[::1]:9093" {
		t.Errorf("got %+v", s)
	}
}

func TestEverySetting(t *testing.T) {
	s, err := decode(json.RawMessage(`{"brokers": ["a:1"], "client_id": "me", "acks": "all", "compression": "zstd",
		"partitioner": "murmur2", "tls": {"server_name": "b", "insecure_skip_verify": true},
		"sasl": {"mechanism": "SCRAM-SHA-256", "username": "u", "password": "p"}, "max_message_bytes": 2000,
		"metadata_ttl": "2s", "dial_timeout": "3m", "request_timeout": "40ms", "idle_timeout": "5s", "max_connections": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.clientID != "me" || s.compression != protocol.Zstd || s.tls.ServerName != "b" || !s.tls.InsecureSkipVerify ||
		s.sasl.Name() != "SCRAM-SHA-256" || s.maxBatchBytes != 2000 || s.metadataTTL != 2*time.Second ||
		s.dialTimeout != 3*time.Minute || s.requestTimeout != 40*time.Millisecond || s.idleTimeout != 5*time.Second || s.connections != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestBadConfiguration(t *testing.T) {
	dir := t.TempDir()
	certificate, key := makeCertificate(t)
	_, otherKey := makeCertificate(t)
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, keyFile, other := file("cert", certificate), file("key", key), file("other", otherKey)
	const brokers = `"brokers": ["a:9092"], `
	for _, test := range []struct{ config, field string }{
		{``, "brokers"},
		{`[]`, "config"},
		{`{`, "config"},
		{`{} {}`, "config"},
		{`null`, "brokers"},
		{`{}`, "brokers"},
		{`{"brokers": []}`, "brokers"},
		{`{"brokers": "a:9092"}`, "brokers"},
		{`{"brokers": ["a:9092", "b"]}`, "brokers[1]"},
		{`{"brokers": [":9092"]}`, "brokers[0]"},
		{`{"brokers": ["a:0"]}`, "brokers[0]"},
		{`{"brokers": ["a:http"]}`, "brokers[0]"},
		{`{"brokers": ["a:70000"]}`, "brokers[0]"},
		{`{` + brokers + `"broker": 1}`, "broker"},
		{`{` + brokers + `"client_id": "` + strings.Repeat("x", 256) + `"}`, "client_id"},
		{`{` + brokers + `"acks": "one"}`, "acks"},
		{`{` + brokers + `"compression": "brotli"}`, "compression"},
		{`{` + brokers + `"partitioner": "crc32"}`, "partitioner"},
		{`{` + brokers + `"max_message_bytes": 1023}`, "max_message_bytes"},
		{`{` + brokers + `"max_message_bytes": "1MiB"}`, "max_message_bytes"},
		{`{` + brokers + `"max_connections": 0}`, "max_connections"},
		{`{` + brokers + `"max_connections": 65}`, "max_connections"},
		{`{` + brokers + `"dial_timeout": "5"}`, "dial_timeout"},
		{`{` + brokers + `"dial_timeout": 5}`, "dial_timeout"},
		{`{` + brokers + `"request_timeout": "-1s"}`, "request_timeout"},
		{`{` + brokers + `"idle_timeout": "300h"}`, "idle_timeout"},
		{`{` + brokers + `"metadata_ttl": "1ms"}`, "metadata_ttl"},
		{`{` + brokers + `"tls": true}`, "tls"},
		{`{` + brokers + `"tls": {"ca": "` + dir + `/missing"}}`, "tls.ca"},
		{`{` + brokers + `"tls": {"ca": "` + keyFile + `"}}`, "tls.ca"},
		{`{` + brokers + `"tls": {"cert": "` + cert + `"}}`, "tls.key"},
		{`{` + brokers + `"tls": {"key": "` + keyFile + `"}}`, "tls.cert"},
		{`{` + brokers + `"tls": {"cert": "` + cert + `", "key": "` + other + `"}}`, "tls.cert"},
		{`{` + brokers + `"tls": {"verify": false}}`, "verify"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "password": "hush-hush"}}`, "sasl.username"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "username": "u"}}`, "sasl.password"},
		{`{` + brokers + `"sasl": {"mechanism": "hush-hush", "username": "u", "password": "hush-hush"}}`, "sasl.mechanism"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "username": "u", "password": 7331}}`, "sasl.password"},
		{`{` + brokers + `"sasl": {"mechanism": "scram-sha-512", "username": "u", "password": "hush-hush\u0007"}}`, "sasl"},
	} {
		_, err := Open(t.Context(), json.RawMessage(test.config))
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if !ok || invalid.Field != test.field {
			t.Errorf("%s: got %v, want an InvalidError of %s", test.config, err, test.field)
			continue
		}
		if strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "7331") {
			t.Errorf("%s: the error shows a secret: %v", test.config, err)
		}
	}
	good := `{` + brokers + `"tls": {"ca": "` + cert + `", "cert": "` + cert + `", "key": "` + keyFile + `"}}`
	if _, err := decode(json.RawMessage(good)); err != nil {
		t.Errorf("with a good certificate: %v", err)
	}
}

// makeCertificate makes a certificate for 127.0.0.1 that is its own authority.
func makeCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
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
