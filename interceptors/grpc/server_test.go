package grpclistener

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/auth"
)

const (
	goodToken  = "correct-horse-battery-staple"
	otherToken = "another-token-of-good-length"
)

func TestNewChecksTheConfiguration(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	expiredCert, expiredKey := servers.Certificate(t, time.Now().Add(-time.Minute))
	tests := map[string]struct {
		config Config
		field  string // empty: no error
		want   string // part of the error
	}{
		"zero value":               {Config{}, "", ""},
		"loopback, v6":             {Config{Listen: "[::1]:0"}, "", ""},
		"localhost":                {Config{Listen: "localhost:0"}, "", ""},
		"public":                   {Config{Listen: "0.0.0.0:7421"}, "listen", "set tokens"},
		"public, no host":          {Config{Listen: ":7421"}, "listen", "insecure: true"},
		"public, name":             {Config{Listen: "127.0.0.1.example:7421"}, "listen", "set tokens"},
		"public, tokens":           {Config{Listen: ":0", Tokens: []string{goodToken}}, "", ""},
		"public, insecure":         {Config{Listen: ":0", Insecure: true}, "", ""},
		"no port":                  {Config{Listen: "localhost"}, "listen", "host:port"},
		"short token":              {Config{Tokens: []string{goodToken, "secret"}}, "tokens", "token 2 is shorter"},
		"short hash":               {Config{Tokens: []string{"sha256:abcd"}}, "tokens", "token 1 is not sha256:"},
		"certificate":              {Config{TLSCert: cert, TLSKey: key}, "", ""},
		"certificate without key":  {Config{TLSCert: cert}, "tls_cert", "together"},
		"key without certificate":  {Config{TLSKey: key}, "tls_cert", "together"},
		"certificate of other key": {Config{TLSCert: cert, TLSKey: expiredKey}, "tls_cert", "load tls_cert"},
		"certificate expired":      {Config{TLSCert: expiredCert, TLSKey: expiredKey}, "tls_cert", "expired"},
		"negative batch":           {Config{MaxBatch: -1}, "max_batch", "negative"},
		"negative bytes":           {Config{MaxBatchBytes: -1}, "max_batch_bytes", "negative"},
		"much metadata":            {Config{MaxMetadataBytes: 1<<20 + 1}, "max_metadata", "more than"},
		"negative age":             {Config{ConnectionAge: -1}, "connection_age", "negative"},
		"negative timeout":         {Config{StopTimeout: -1}, "stop_timeout", "negative"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.config, interceptor(memstore.New(memstore.Config{}), "orders"))
			if test.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field != test.field || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPortThatIsTaken(t *testing.T) {
	f := newFixture(t, Config{})
	listener, err := New(Config{Listen: f.addr}, interceptor(f.store, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Run(t.Context()); err == nil || !strings.Contains(err.Error(), f.addr) {
		t.Errorf("got %v", err)
	}
}

func withAuthorization(ctx context.Context, values ...string) context.Context {
	for _, v := range values {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

func TestTokenIsNeeded(t *testing.T) {
	f := newFixture(t, Config{Reflection: true, Tokens: []string{goodToken, fmt.Sprintf("sha256:%X", sha256.Sum256([]byte(otherToken)))}})
	tests := map[string]struct {
		values []string
		admit  bool
	}{
		"none":           {nil, false},
		"wrong":          {[]string{"Bearer wrong"}, false},
		"empty":          {[]string{"Bearer "}, false},
		"no token":       {[]string{"Bearer"}, false},
		"bare":           {[]string{goodToken}, false},
		"other scheme":   {[]string{"Basic " + goodToken}, false},
		"two":            {[]string{"Bearer " + goodToken, "Bearer " + goodToken}, false},
		"the hash":       {[]string{fmt.Sprintf("Bearer %x", sha256.Sum256([]byte(otherToken)))}, false},
		"plain":          {[]string{"Bearer " + goodToken}, true},
		"hashed":         {[]string{"Bearer " + otherToken}, true},
		"scheme in case": {[]string{"bearer " + goodToken}, true},
	}
	for name, test := range tests {
		ctx := withAuthorization(f.ctx(), test.values...)
		_, err := f.client.List(ctx, &bridgev1.ListRequest{})
		if test.admit != (err == nil) {
			t.Errorf("%s: got %v", name, err)
		}
		if test.admit {
			continue
		}
		f.refused(err, codes.Unauthenticated, "unauthorized")
		stream, err := f.client.PublishStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		if r := f.refused(err, codes.Unauthenticated, "unauthorized"); r.details["stored"] != "false" {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if _, err := healthv1.NewHealthClient(f.conn).Check(f.ctx(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health needs a token: %v", err)
	}
}

func TestTokensCanBeExchanged(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken}})
	list := func(token string) error {
		_, err := f.client.List(withAuthorization(f.ctx(), "Bearer "+token), &bridgev1.ListRequest{})
		return err
	}
	next, err := New(Config{Tokens: []string{otherToken}}, interceptor(f.store))
	if err != nil || list(goodToken) != nil {
		t.Fatal(err, list(goodToken))
	}
	f.listener.Adopt(next)
	f.refused(list(goodToken), codes.Unauthenticated, "unauthorized")
	if err := list(otherToken); err != nil {
		t.Error(err)
	}
}

func TestFloodOfWrongTokens(t *testing.T) {
	f := newFixture(t, Config{Tokens: []string{goodToken}})
	seen := make(map[string]int)
	for range 100 {
		_, err := f.client.List(withAuthorization(f.ctx(), "Bearer wrong"), &bridgev1.ListRequest{})
		seen[refusalOf(t, err).reason]++
	}
	if seen["unauthorized"] < auth.FloodBurst || seen["too_many_requests"] < 20 || seen["unauthorized"]+seen["too_many_requests"] != 100 {
		t.Errorf("got %v", seen)
	}
	if _, err := f.client.List(withAuthorization(f.ctx(), "Bearer "+goodToken), &bridgev1.ListRequest{}); err != nil {
		t.Errorf("the good token is locked out: %v", err)
	}
}

func TestTLS(t *testing.T) {
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	f := newFixture(t, Config{TLSCert: cert, TLSKey: key})
	text, err := os.ReadFile(cert)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	secure := bridgev1.NewBridgeServiceClient(dial(t, f.addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool}))))
	if _, err := secure.Publish(f.ctx(), &bridgev1.PublishRequest{Messages: []*bridgev1.Message{hourly("a")}}); err != nil {
		t.Error(err)
	}
	if _, err := f.publish(hourly("b")); refusalOf(t, err).code != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
	if conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("TLS 1.1 was taken")
	}
	if parked, _ := f.store.seen(); len(parked) != 1 {
		t.Errorf("%d messages were parked", len(parked))
	}
}
