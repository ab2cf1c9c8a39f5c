//go:build unix

// Package servers starts real servers for tests: Redis (alone, as a cluster,
// under Sentinel), RabbitMQ, Kafka and RocketMQ, and processes of the bridge. Each is private to its test:
// free loopback ports, its own directory, and gone when the test ends or the
// test process dies.
//
//	redis := servers.Redis(t, servers.RedisOptions{})
//	client := redisClient(redis.Addr())
//	redis.Kill()  // as by kill -9
//	redis.Start() // again, on the same port and directory
//
// Where a server's program is missing, the test is skipped, with a line that
// says what to install; where servers are required (DELAYBRIDGE_REQUIRE_SERVERS=1
// or CI=true) it fails instead. With -short, all but Redis are left out.
//
// A running server can be used in place of a private one: DELAYBRIDGE_TEST_REDIS
// (host:port, or a redis:// URL), DELAYBRIDGE_TEST_KAFKA and
// DELAYBRIDGE_TEST_ROCKETMQ (host:port, comma separated), DELAYBRIDGE_TEST_AMQP
// (a URL). Tests that need to stop such a server, or to start it with certain
// options, are then skipped. The Redis must be empty and is emptied by each
// test, so packages and tests take turns: go test -p 1 -parallel 1.
//
// Methods of the servers are called from the goroutine of the test, since they
// end it on failure; addresses and URLs can be read from anywhere.
package servers

import (
	"os"
	"strings"
	"testing"
)

// required tells whether a missing server is a failure.
func required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("DELAYBRIDGE_REQUIRE_SERVERS") == "1"
}

// unavailable ends the test: it can't run here, and the message says why.
func unavailable(t TB, format string, args ...any) {
	t.Helper()
	if required() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// slow skips the test if only short ones are wanted: the server takes seconds
// to start.
func slow(t TB) {
	t.Helper()
	if testing.Testing() && testing.Short() {
		t.Skipf("starts a server that takes seconds, and -short is set")
	}
}

// external returns the addresses that an environment variable names.
func external(name string) []string {
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}
