package kafkaconn

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/internal/settings"
)

func load(raw string) (Dialer, error) {
	var c ConnectionConfig
	if err := settings.Decode(json.RawMessage(raw), &c, "a test"); err != nil {
		return Dialer{}, err
	}
	return c.Load()
}

func TestDefaults(t *testing.T) {
	d, err := load(`{"brokers": ["a:9092", "[::1]:9093"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if d.ClientID != "delaybridge" || d.TLS != nil || d.SASL != nil || d.DialTimeout != 3*time.Second ||
		d.RequestTimeout != 5*time.Second || d.Seeds[1] != "[::1]:9093" || d.DialContext == nil {
		t.Errorf("got %+v", d)
	}
}

func TestEverySetting(t *testing.T) {
	d, err := load(`{"brokers": ["a:1"], "client_id": "me", "tls": {"server_name": "b", "insecure_skip_verify": true},
		"sasl": {"mechanism": "SCRAM-SHA-256", "username": "u", "password": "p"}, "dial_timeout": "3m", "request_timeout": "40ms"}`)
	if err != nil {
		t.Fatal(err)
	}
	if d.ClientID != "me" || d.TLS.ServerName != "b" || !d.TLS.InsecureSkipVerify || d.SASL.Name() != "SCRAM-SHA-256" ||
		d.DialTimeout != 3*time.Minute || d.RequestTimeout != 40*time.Millisecond {
		t.Errorf("got %+v", d)
	}
}

func TestBadConfiguration(t *testing.T) {
	dir := t.TempDir()
	cert, keyFile := servers.Certificate(t, time.Now().Add(time.Hour))
	_, other := servers.Certificate(t, time.Now().Add(time.Hour))
	const brokers = `"brokers": ["a:9092"], `
	for _, test := range []struct{ config, field string }{
		{``, "brokers"},
		{`{}`, "brokers"},
		{`{"brokers": null}`, "brokers"},
		{`{"brokers": []}`, "brokers"},
		{`{"brokers": ["a:9092", "b"]}`, "brokers[1]"},
		{`{"brokers": [":9092"]}`, "brokers[0]"},
		{`{"brokers": ["a:0"]}`, "brokers[0]"},
		{`{"brokers": ["a:http"]}`, "brokers[0]"},
		{`{"brokers": ["a:70000"]}`, "brokers[0]"},
		{`{` + brokers + `"client_id": "` + strings.Repeat("x", 256) + `"}`, "client_id"},
		{`{` + brokers + `"dial_timeout": "5"}`, "dial_timeout"},
		{`{` + brokers + `"dial_timeout": "0s"}`, "dial_timeout"},
		{`{` + brokers + `"request_timeout": "-1s"}`, "request_timeout"},
		{`{` + brokers + `"request_timeout": "11m"}`, "request_timeout"},
		{`{` + brokers + `"tls": {"ca": "` + dir + `/missing"}}`, "tls.ca"},
		{`{` + brokers + `"tls": {"ca": "` + keyFile + `"}}`, "tls.ca"},
		{`{` + brokers + `"tls": {"cert": "` + cert + `"}}`, "tls.key"},
		{`{` + brokers + `"tls": {"key": "` + keyFile + `"}}`, "tls.cert"},
		{`{` + brokers + `"tls": {"cert": "` + cert + `", "key": "` + other + `"}}`, "tls.cert"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "password": "hush-hush"}}`, "sasl.username"},
		{`{` + brokers + `"sasl": {"mechanism": "plain", "username": "u"}}`, "sasl.password"},
		{`{` + brokers + `"sasl": {"mechanism": "hush-hush", "username": "u", "password": "hush-hush"}}`, "sasl.mechanism"},
		{`{` + brokers + `"sasl": {"mechanism": "scram-sha-256", "username": "u", "password": "hush-hush\u0000"}}`, "sasl"},
		{`{` + brokers + `"sasl": {"mechanism": "scram-sha-512", "username": "u", "password": "hush-hush\u0007"}}`, "sasl"},
	} {
		_, err := load(test.config)
		invalid, ok := errors.AsType[*core.InvalidError](err)
		if !ok || invalid.Field != test.field || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, want an InvalidError of %s that shows no secret", test.config, err, test.field)
		}
	}
	good := `{` + brokers + `"tls": {"ca": "` + cert + `", "cert": "` + cert + `", "key": "` + keyFile + `"}}`
	if _, err := load(good); err != nil {
		t.Errorf("%s: %v", good, err)
	}
}
