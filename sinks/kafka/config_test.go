package kafka

import (
	"encoding/json"
	"errors"
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
	if s.ClientID != "delaybridge" || s.compression != 0 || s.TLS != nil || s.SASL != nil || s.maxBatchBytes != 1048588 ||
		s.metadataTTL != time.Second || s.DialTimeout != 3*time.Second || s.RequestTimeout != 5*time.Second ||
		s.idleTimeout != 30*time.Second || s.connections != 4 || s.Seeds[1] != "[::1]:9093" {
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
	if s.ClientID != "me" || s.compression != protocol.Zstd || s.TLS.ServerName != "b" || !s.TLS.InsecureSkipVerify ||
		s.SASL.Name() != "SCRAM-SHA-256" || s.maxBatchBytes != 2000 || s.metadataTTL != 2*time.Second ||
		s.DialTimeout != 3*time.Minute || s.RequestTimeout != 40*time.Millisecond || s.idleTimeout != 5*time.Second || s.connections != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestBadConfiguration(t *testing.T) {
	const brokers = `"brokers": ["a:9092"], `
	for _, test := range []struct{ config, field string }{
		{``, "brokers"},
		{`[]`, "config"},
		{`{`, "config"},
		{`{} {}`, "config"},
		{`null`, "brokers"},
		{`{}`, "brokers"},
		{`{"brokers": "a:9092"}`, "brokers"},
		{`{` + brokers + `"broker": 1}`, "broker"},
		{`{` + brokers + `"acks": "one"}`, "acks"},
		{`{` + brokers + `"compression": "brotli"}`, "compression"},
		{`{` + brokers + `"partitioner": "crc32"}`, "partitioner"},
		{`{` + brokers + `"max_message_bytes": 1023}`, "max_message_bytes"},
		{`{` + brokers + `"max_message_bytes": "1MiB"}`, "max_message_bytes"},
		{`{` + brokers + `"max_connections": 0}`, "max_connections"},
		{`{` + brokers + `"max_connections": 65}`, "max_connections"},
		{`{` + brokers + `"dial_timeout": 5}`, "dial_timeout"},
		{`{` + brokers + `"idle_timeout": "300h"}`, "idle_timeout"},
		{`{` + brokers + `"metadata_ttl": "1ms"}`, "metadata_ttl"},
		{`{` + brokers + `"tls": true}`, "tls"},
		{`{` + brokers + `"tls": {"verify": false}}`, "verify"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "username": "u", "password": 7331}}`, "sasl.password"},
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
	if _, err := decode(json.RawMessage(`{` + brokers + `"tls": {}}`)); err != nil {
		t.Error(err)
	}
}
