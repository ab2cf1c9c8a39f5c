//go:build unix

package servers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// KafkaOperation is something that a user may do with a topic, by its number in
// Kafka's protocol.
type KafkaOperation int8

// Operations for Allow. Who may write may also describe.
const (
	KafkaWrite    KafkaOperation = 4
	KafkaDescribe KafkaOperation = 8
)

// addLogins adds a listener on which clients log in. Who does not, on the other
// one, may do everything.
func (o KafkaOptions) addLogins(p map[string]string, port int) {
	p["listeners"] += fmt.Sprintf(",LOGIN://127.0.0.1:%d", port)
	p["advertised.listeners"] += fmt.Sprintf(",LOGIN://%s:%d", o.AdvertiseHost, port)
	p["listener.security.protocol.map"] += ",LOGIN:SASL_PLAINTEXT"
	var users strings.Builder
	for _, user := range slices.Sorted(maps.Keys(o.Users)) {
		fmt.Fprintf(&users, " user_%s=%q", user, o.Users[user])
	}
	p["sasl.enabled.mechanisms"] = "PLAIN"
	p["listener.name.login.plain.sasl.jaas.config"] =
		"org.apache.kafka.common.security.plain.PlainLoginModule required" + users.String() + ";"
	p["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
	p["super.users"] = "User:ANONYMOUS"
	p["allow.everyone.if.no.acl.found"] = "true"
}

// LoginAddrs are the brokers' host:port for clients that log in.
func (c *KafkaCluster) LoginAddrs() []string {
	c.t.Helper()
	if !c.logins {
		c.t.Fatalf("this kafka was started without KafkaOptions.Users")
	}
	addrs := make([]string, len(c.addrs))
	for n, addr := range c.addrs {
		port, _ := strconv.Atoi(portOf(addr))
		addrs[n] = loopback(port + kafkaLoginPort)
	}
	return addrs
}

// Allow lets a user do something with a topic, and returns when every node knows
// of it. What nobody was allowed to do anything with is open to all.
func (c *KafkaCluster) Allow(user, topic string, operation KafkaOperation) {
	c.t.Helper()
	allow := func(addr string) error { return kafkaAllow(addr, user, topic, operation) }
	err := poll.Succeeds(kafkaReadyIn, func() error { return c.any(allow) })
	for _, addr := range c.addrs {
		err = errors.Join(err, poll.Succeeds(kafkaReadyIn, func() error { return kafkaAllows(addr, user, topic, operation) }))
	}
	if err != nil {
		c.t.Fatalf("allow kafka user %s an operation on %s: %v", user, topic, err)
	}
}

// The requests about rules of access, and the numbers that a rule is made of.
const (
	kafkaRule        = 30
	kafkaRules       = 29
	kafkaRuleVersion = 1
	kafkaTopicKind   = 2
	kafkaLiteral     = 3
	kafkaAllowed     = 3
)

// kafkaRuleOf writes a rule, which is also the filter that finds it.
func kafkaRuleOf(request *wireWriter, user, topic string, operation KafkaOperation) {
	request.int8(kafkaTopicKind)
	request.string(topic)
	request.int8(kafkaLiteral)
	request.string("User:" + user)
	request.string("*") // from any host
	request.int8(int8(operation))
	request.int8(kafkaAllowed)
}

// kafkaAllows fails until a broker goes by the rule, which is a little later
// than it is made.
func kafkaAllows(addr, user, topic string, operation KafkaOperation) error {
	var request wireWriter
	kafkaRuleOf(&request, user, topic, operation)
	answer, err := kafkaCall(addr, kafkaRules, kafkaRuleVersion, request)
	if err != nil {
		return err
	}
	r := wireReader{rest: answer}
	r.int32() // throttle
	if err := r.result(); err != nil {
		return err
	}
	if found := r.int32(); r.err == nil && found == 0 {
		return errors.New("the rule does not hold yet")
	}
	return r.err
}

func kafkaAllow(addr, user, topic string, operation KafkaOperation) error {
	var request wireWriter
	request.int32(1)
	kafkaRuleOf(&request, user, topic, operation)
	answer, err := kafkaCall(addr, kafkaRule, kafkaRuleVersion, request)
	if err != nil {
		return err
	}
	r := wireReader{rest: answer}
	r.int32() // throttle
	r.int32() // one rule
	return r.result()
}
