//go:build unix

package kafka

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

const (
	testUser     = "sender"
	testPassword = "correct horse"
)

// startSecured starts a Kafka whose second listener, at the returned address,
// wants TLS and a login. There are permissions, too.
func startSecured(t *testing.T, version string) (c *testCluster, addr, ca string) {
	t.Helper()
	properties, ca := servers.KafkaSecured(t, testUser, testPassword)
	maps.Copy(properties, map[string]string{
		"sasl.enabled.mechanisms":                             "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.broker.scram-sha-256.sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required;`,
		"listener.name.broker.scram-sha-512.sasl.jaas.config": `org.apache.kafka.common.security.scram.ScramLoginModule required;`,
		"authorizer.class.name":                               "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                         "User:ANONYMOUS",
		"allow.everyone.if.no.acl.found":                      "true",
		"connection.failed.authentication.delay.ms":           "10",
	})
	c = startCluster(t, servers.KafkaOptions{Version: version, Config: properties})
	c.addUser(t)
	return c, c.SecuredAddr(), ca
}

func (c *testCluster) addUser(t *testing.T) {
	t.Helper()
	for mechanism, newHash := range map[kafka.ScramMechanism]func() hash.Hash{kafka.ScramMechanismSha256: sha256.New, kafka.ScramMechanismSha512: sha512.New} {
		const rounds = 4096
		salt := []byte("some salt")
		salted, err := pbkdf2.Key(newHash, testPassword, salt, rounds, newHash().Size())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.client.AlterUserScramCredentials(t.Context(), &kafka.AlterUserScramCredentialsRequest{Upsertions: []kafka.UserScramCredentialsUpsertion{
			{Name: testUser, Mechanism: mechanism, Iterations: rounds, Salt: salt, SaltedPassword: salted}}})
		if err != nil || answer.Results[0].Error != nil {
			t.Fatal(err, answer)
		}
	}
}

// allow lets the test user do one thing with a topic, and so nothing else.
func (c *testCluster) allow(t testing.TB, topic string, operation kafka.ACLOperationType) {
	t.Helper()
	c.Allow(testUser, topic, servers.KafkaOperation(operation)) // which waits until every broker knows
}

func secured(mechanism, password, ca string) map[string]any {
	return map[string]any{
		"tls":  map[string]any{"ca": ca},
		"sasl": map[string]any{"mechanism": mechanism, "username": testUser, "password": password},
	}
}

func TestSecuredCluster(t *testing.T) {
	for _, version := range []string{servers.Kafka3, servers.Kafka4} {
		t.Run(version, func(t *testing.T) {
			c, addr, ca := startSecured(t, version)
			for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
				t.Run(mechanism, func(t *testing.T) { testLogin(t, c, addr, ca, mechanism) })
			}
			t.Run("refusals", func(t *testing.T) { testRefusedConnections(t, c, addr, ca) })
			if version == servers.Kafka4 { // the rest is as without TLS and logins
				t.Run("suite", func(t *testing.T) { sinktest.Run(t, c.securedKit(t, addr, ca)) })
			}
		})
	}
}

func testLogin(t *testing.T, c *testCluster, addr, ca, mechanism string) {
	topic := c.topic(1)
	good := openTest(t, []string{addr}, secured(mechanism, testPassword, ca), nil)
	defer good.Close()
	if err := good.Deliver(t.Context(), []*core.Message{{ID: "1", Topic: topic, Attempt: 1}}); err != nil {
		t.Errorf("with the right password: %v", err)
	}
	bad := openTest(t, []string{addr}, secured(mechanism, "wrong secret", ca), nil)
	defer bad.Close()
	err := bad.Deliver(t.Context(), []*core.Message{{ID: "2", Topic: topic, Attempt: 1}})
	if core.ClassOf(err) != core.Blocked {
		t.Errorf("with a wrong password: class %s: %v", core.ClassOf(err), err)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// testRefusedConnections checks what becomes of connections that can't work
// until somebody changes the configuration.
func testRefusedConnections(t *testing.T, c *testCluster, addr, ca string) {
	otherCA, _ := servers.Certificate(t, time.Now().Add(time.Hour))
	wrongName := secured("plain", testPassword, ca)
	wrongName["tls"] = map[string]any{"ca": ca, "server_name": "elsewhere.example"}
	unknownMechanism := secured("plain", testPassword, ca)
	delete(unknownMechanism, "tls")
	for _, test := range []struct {
		name   string
		addr   string
		more   map[string]any
		blocks bool // else it looks like a broker that is unreachable
	}{
		{"other CA", addr, secured("plain", testPassword, otherCA), true},
		{"other name", addr, wrongName, true},
		{"no TLS", addr, unknownMechanism, true},
		{"no login", addr, map[string]any{"tls": map[string]any{"ca": ca}}, false},
		{"TLS to a plain listener", c.Addrs()[0], secured("plain", testPassword, ca), false},
		{"login not wanted", c.Addrs()[0], unknownMechanism, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			sink := openTest(t, []string{test.addr}, test.more, nil)
			defer sink.Close()
			err := sink.Deliver(t.Context(), []*core.Message{{ID: "1", Topic: "any", Attempt: 1}})
			want := core.Retry
			if test.blocks {
				want = core.Blocked
			}
			if _, each := errors.AsType[core.BatchError](err); err == nil || each || core.ClassOf(err) != want {
				t.Errorf("got %v, want one error of class %s", err, want)
			}
		})
	}
}

// securedKit is the suite's kit where logins and permissions exist.
func (c *testCluster) securedKit(t testing.TB, addr, ca string) sinktest.Kit {
	kit := c.kit(t)
	wire := sinktest.NewWire(t)
	openAs := func(password string) func(t testing.TB) core.Sink {
		return func(t testing.TB) core.Sink {
			more := secured("scram-sha-512", password, ca)
			more["max_message_bytes"] = kitMaxBatch
			return openTest(t, []string{addr}, more, wire.Dial)
		}
	}
	restart := kit.Faults.Restart
	kit.Faults = wire.Faults()
	kit.Faults.Restart = restart
	kit.Open = openAs(testPassword)
	kit.LoginRefused = &sinktest.Refusal{Open: openAs("wrong secret"), Class: core.Blocked}
	kit.NoRights = &sinktest.Refusal{Class: core.TopicBlocked, Topic: func(t testing.TB) string {
		topic := c.topic(1)
		c.allow(t, topic, kafka.ACLOperationTypeDescribe) // so that only the record itself is refused
		return topic
	}}
	kit.Rounds = 20 // TLS and SCRAM take their time
	return kit
}

// TestTopicOutOfSight is about a topic that the login may not even know of.
func TestTopicOutOfSight(t *testing.T) {
	t.Parallel()
	c, addr, ca := startSecured(t, servers.Kafka3)
	hidden, good := c.topic(1), c.topic(1)
	c.allow(t, hidden, kafka.ACLOperationTypeAlterConfigs)
	sink := openTest(t, []string{addr}, secured("plain", testPassword, ca), nil)
	defer sink.Close()
	err := sink.Deliver(t.Context(), []*core.Message{{ID: "1", Topic: hidden, Attempt: 1}, {ID: "2", Topic: good, Attempt: 1}})
	results, ok := errors.AsType[core.BatchError](err)
	if !ok || core.ClassOf(results[0]) != core.TopicBlocked || results[1] != nil {
		t.Errorf("got %v, want topic_blocked for the first alone", err)
	}
}
