package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// write makes a file in the test's directory.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(path string) (*Config, error) {
	return Load(path, Options{SinkTypes: []string{"console"}, LookupEnv: env()})
}

// TestReadableSecret is C9.
func TestReadableSecret(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes mean nothing here")
	}
	secrets := map[string]string{
		"password":           "store: {redis: {addrs: [\"h:1\"], password: hunter2}}\nsinks: {a: {type: console}}\n",
		"url":                "store: {redis: {url: \"redis://u:hunter2@h\"}}\nsinks: {a: {type: console}}\n",
		"token":              good + "http: {tokens: [hunter2hunter2hunter2]}\n",
		"password of a sink": "store: {redis: {addrs: [\"h:1\"]}}\nsinks: {a: {type: console, config: {sasl: {password: hunter2}}}}\n",
		"url of a sink":      "store: {redis: {addrs: [\"h:1\"]}}\nsinks: {a: {type: console, config: {url: \"amqp://u:hunter2@h\"}}}\n",
	}
	for name, text := range secrets {
		t.Run(name, func(t *testing.T) {
			_, err := load(write(t, "c.yaml", text, 0o644))
			if err == nil || !strings.Contains(err.Error(), "[readable-secret]") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("world-readable: got %v", err)
			}
			if _, err := load(write(t, "c.yaml", text, 0o600)); err != nil {
				t.Errorf("private: got %v", err)
			}
		})
	}
	harmless := good + "http: {tokens: [\"sha256:" + strings.Repeat("0", 64) + "\"]}\n"
	if _, err := load(write(t, "c.yaml", harmless, 0o644)); err != nil {
		t.Errorf("a hash is no secret, got %v", err)
	}
}

// TestCertificates is C15.
func TestCertificates(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	_, otherKey := servers.Certificate(t, time.Now().Add(time.Hour))
	oldCert, oldKey := servers.Certificate(t, time.Now().Add(-24*time.Hour))
	_, openKey := servers.Certificate(t, time.Now().Add(time.Hour))
	if err := os.Chmod(openKey, 0o644); err != nil {
		t.Fatal(err)
	}
	redisTLS := func(s string) string {
		return "store: {redis: {url: \"rediss://h\", tls: {enabled: true, " + s + "}}}\nsinks: {a: {type: console}}\n"
	}
	tests := map[string]struct{ text, want string }{
		"good":             {good + fmt.Sprintf("http: {tls_cert: %q, tls_key: %q}\n", cert, key), ""},
		"good for Redis":   {redisTLS(fmt.Sprintf("ca: %q, cert: %q, key: %q", cert, cert, key)), ""},
		"other key":        {good + fmt.Sprintf("http: {tls_cert: %q, tls_key: %q}\n", cert, otherKey), "http.tls_cert: tls: private key does not match"},
		"expired":          {good + fmt.Sprintf("http: {tls_cert: %q, tls_key: %q}\n", oldCert, oldKey), "http.tls_cert: the certificate expired on "},
		"expired, of grpc": {good + fmt.Sprintf("grpc: {tls_cert: %q, tls_key: %q}\n", oldCert, oldKey), "grpc.tls_cert: the certificate expired on "},
		"readable key of metrics": {good + fmt.Sprintf("metrics: {listen: \"127.0.0.1:0\", tls_cert: %q, tls_key: %q}\n", cert, openKey),
			"metrics.tls_key: is a private key that is readable by all users"},
		"not there":        {good + "http: {tls_cert: /nowhere/c, tls_key: /nowhere/k}\n", "http.tls_cert: open ***: no such file"},
		"readable key":     {good + fmt.Sprintf("http: {tls_cert: %q, tls_key: %q}\n", cert, openKey), "http.tls_key: is a private key that is readable by all users"},
		"no authority":     {redisTLS(fmt.Sprintf("ca: %q", key)), "store.redis.tls.ca: holds no certificate"},
		"not enabled":      {"store: {redis: {addrs: [\"h:1\"], tls: {ca: x}}}\nsinks: {a: {type: console}}\n", "store.redis.tls.ca: has no effect"},
		"key without cert": {redisTLS(fmt.Sprintf("key: %q", key)), "store.redis.tls.key: needs store.redis.tls.cert"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := load(write(t, "c.yaml", tt.text, 0o600))
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Store.Redis.TLS.Client(); err != nil {
				t.Errorf("make a client of it: %v", err)
			}
		})
	}
}

func TestFileThatCantBeRead(t *testing.T) {
	if _, err := load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want it to say that there is no such file", err)
	}
	if _, err := load(t.TempDir()); err == nil {
		t.Error("a directory was read as a file")
	}
}

func TestDurationsAndSizes(t *testing.T) {
	durations := map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"2d": 48 * time.Hour, "1w": 168 * time.Hour, "1w2d3h4m": 219*time.Hour + 4*time.Minute, "0.5d": 12 * time.Hour, "10µs": 10 * time.Microsecond,
	}
	for text, want := range durations {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "-", "-1s", "5 s", "s", "1y", "1M", "P1M", "1e3s", "١s", "106752d", "9999999999999h", "1s2", "+1s", "NaN", "106751d24h"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	sizes := map[string]int{"0B": 0, "512B": 512, "64KiB": 65536, "1kB": 1000, "4MiB": 4 << 20, "2MB": 2_000_000, "1GiB": 1 << 30}
	for text, want := range sizes {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "5KB", "5kb", "-5B", "1.5MiB", "5 B", "99999999999999999999B", "9999999999999GiB", "B"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, text := range []string{"010", "0x10", "1_000", "1e3", "1.5", "+1", "", " 1", "99999999999999999999"} {
		if got, err := parseNumber(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	for _, text := range []string{".inf", "NaN", "1e400", "0x1p-2", "1_0", ".5", "5."} {
		if got, err := parseDecimal(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
