package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// A password and certificates that are replaced hold for the next connection.
func TestAdopt(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	makeUser(t, server, documentedUser(t, "~delaybridge:*"))
	cert, key := servers.Certificate(t, time.Now().Add(time.Hour))
	trusted := x509.NewCertPool()
	if text, err := os.ReadFile(cert); err != nil || !trusted.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	config := asUser(Config{Addrs: []string{servers.TLSFront(t, server.Addr(), cert, key, "")}, AllowVolatile: true, timeout: 3 * time.Second,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}, DedupeWindow: time.Minute})
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	works := func() error {
		server.MustDo("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		if err := s.Health(t.Context()); err == nil {
			return nil
		}
		return s.Health(t.Context()) // the first may use a connection that was cut
	}
	server.MustDo("ACL", "SETUSER", aclUser, "resetpass", ">another-secret")
	if works() == nil {
		t.Error("the old password is good")
	}
	config.Password, config.DedupeWindows = "another-secret", map[string]time.Duration{"orders": 3 * time.Second}
	s.Adopt(config)
	if err := works(); err != nil {
		t.Errorf("the new password: %v", err)
	}
	if orders, others := s.config.window("orders"), s.config.window("others"); orders != 3000 || others != 60_000 {
		t.Errorf("windows %d and %d", orders, others)
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	s.Adopt(config)
	if works() == nil {
		t.Error("connected with a certificate that is no longer trusted")
	}
}
