package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConnectionPrecedence(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	stored := contexts{Current: "used", Contexts: map[string]connection{
		"used":  {URL: "http://used", TokenFile: "used.token", Cert: "used.cert", CertKey: "used.key"},
		"other": {URL: "http://other", CA: "other.ca"},
	}}
	if err := stored.store(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		flags sessionFlags
		env   map[string]string
		want  connection
	}{
		"context in use":         {want: stored.Contexts["used"]},
		"context of environment": {env: map[string]string{envContext: "other"}, want: stored.Contexts["other"]},
		"context of flag": {flags: sessionFlags{context: "other"}, env: map[string]string{envContext: "used", envURL: "http://env", envToken: "t", envCA: "env.ca"},
			want: connection{URL: "http://other", Token: "t", CA: "other.ca"}},
		"a token goes to its own URL only": {env: map[string]string{envURL: "http://env"}, want: connection{URL: "http://env"}},
		"also with a flag":                 {flags: sessionFlags{connection: connection{URL: "http://flag"}}, want: connection{URL: "http://flag"}},
		"flag before environment": {flags: sessionFlags{connection: connection{URL: "http://flag", TokenFile: "flag.token"}},
			env: map[string]string{envURL: "http://env", envToken: "t", envCert: "env.cert", envCertKey: "env.key"}, want: connection{URL: "http://flag", TokenFile: "flag.token", Cert: "env.cert", CertKey: "env.key"}},
		"environment before context": {env: map[string]string{envToken: "t"}, want: connection{URL: "http://used", Token: "t", Cert: "used.cert", CertKey: "used.key"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{envURL, envToken, envTokenFile, envCA, envCert, envCertKey, envContext} {
				t.Setenv(variable, tt.env[variable])
			}
			got, err := tt.flags.resolve()
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v, -want +got\n%s", err, diff)
			}
		})
	}
}

// TestTLS calls a bridge that has its own authority and demands a certificate.
func TestTLS(t *testing.T) {
	f := &fake{status: 200, contentType: "application/json", body: `{"ready":true,"durability":"memory"}`}
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, certKey := write("ca", "CERTIFICATE", server.Certificate().Raw), write("key", "PRIVATE KEY", key)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret-secret-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"all":            {[]string{"--ca", ca, "--cert", ca, "--cert-key", certKey, "--token-file", token}, exitOK, ""},
		"no authority":   {[]string{"--cert", ca, "--cert-key", certKey}, exitUnreachable, "unknown authority"},
		"no certificate": {[]string{"--ca", ca}, exitUnreachable, "certificate required"},
		"no key":         {[]string{"--ca", ca, "--cert", ca}, exitUsage, "cert-key"},
		"no file":        {[]string{"--ca", "nosuch"}, exitUsage, "--ca can't be read: open nosuch: "},
		"wrong key":      {[]string{"--cert", ca, "--cert-key", ca}, exitUsage, "--cert can't be used together with tls.key: "},
		"no token":       {[]string{"--token-file", "nosuch"}, exitUsage, "read the token: open nosuch: "},
		"two tokens":     {[]string{"--token-file", token, "--token", "x"}, exitUsage, "token-file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(t.Context(), append([]string{"health", "--url", server.URL}, tt.args...), nil, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) || (code == exitOK) != (stdout.Len() > 0) {
				t.Errorf("code %d, %s%s", code, stdout.String(), stderr.String())
			}
		})
	}
	if len(f.tokens) != 1 || f.tokens[0] != "Bearer secret-secret-secret" {
		t.Errorf("tokens %q", f.tokens)
	}
}

func TestHealth(t *testing.T) {
	answer := `{"ready":false,"reason":"store unreachable","durability":"fsync","insecure":true,"sinks":{"b":"paused","a":"x\n"},"sources":{"in":"stopped"}}`
	tests := map[string]struct {
		fake   *fake
		code   int
		stdout string
		stderr string
	}{
		"ready": {&fake{status: 200, contentType: "application/json", body: `{"ready":true,"durability":"memory"}`}, exitOK,
			"ready       true\ndurability  memory\n", ""},
		"not ready": {&fake{status: 503, contentType: "application/json", body: answer}, exitUnreachable,
			"ready       false\nreason      store unreachable\ndurability  fsync\ninsecure    true: other machines can call it without a token\n" +
				"sink a      x\\n\nsink b      paused\nsource in   stopped\n", ""},
		"another server": {&fake{status: 200, contentType: "application/json", body: `{}`}, exitFailed, "",
			"delaybridge: read the answer: not the health of a bridge\n"},
		"a proxy": {&fake{status: 503, contentType: "text/html", body: "x"}, exitFailed, "",
			"delaybridge: ask URL: the answer 503 Service Unavailable is not delaybridge's\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := ask(t, tt.fake, "health")
			if diff := cmp.Diff([]any{tt.code, tt.stdout, tt.stderr}, []any{code, stdout, stderr}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
