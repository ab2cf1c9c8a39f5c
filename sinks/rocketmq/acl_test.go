//go:build unix

package rocketmq

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

const (
	aclUser   = "sender"
	aclSecret = "sender-secret"
	// aclTopics is what the user may send to.
	aclTopics = "topic-"
)

// aclConfig has a broker of 5.x check logins and rights, but for what the tests
// do themselves: make topics and users, ask for signs of life, and pull.
func aclConfig() []string {
	open := "11,17,28,34,3001,3006"
	provider := "org.apache.rocketmq.auth.%s.provider.%s%sProvider"
	config := []string{"authenticationEnabled=true", "authorizationEnabled=true",
		"authenticationWhitelist=" + open, "authorizationWhitelist=" + open,
		`initAuthenticationUser={"username":"admin","password":"admin-secret"}`}
	for _, what := range []string{"Authentication", "Authorization"} {
		lower := strings.ToLower(what)
		config = append(config, lower+"Provider="+fmt.Sprintf(provider, lower, "Default", what),
			lower+"MetadataProvider="+fmt.Sprintf(provider, lower, "Local", what+"Metadata"))
	}
	return config
}

// kitWithLogin makes the user and its rights, and adds the cases that need them.
func (c *realCluster) kitWithLogin(t *testing.T, nameServer string) sinktest.Kit {
	kit := c.kit(t, nameServer)
	c.mustAsk(t, rocketmq.Command{Code: 3001, Fields: map[string]string{"username": aclUser},
		Body: []byte(`{"username":"` + aclUser + `","password":"` + aclSecret + `","userType":"Normal"}`)})
	rights, err := json.Marshal(map[string]any{"subject": "User:" + aclUser, "policies": []any{map[string]any{
		"policyType": "Custom", "entries": []any{map[string]any{
			"resource": "Topic:" + aclTopics + "*", "actions": []string{"Pub"}, "decision": "Allow"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	c.mustAsk(t, rocketmq.Command{Code: 3006, Fields: map[string]string{"subject": "User:" + aclUser}, Body: rights})
	login := func(secret string) func(testing.TB) core.Sink {
		return func(t testing.TB) core.Sink {
			return openAt(t, nameServer, fmt.Sprintf(`"access_key":%q,"secret_key":%q`, aclUser, secret))
		}
	}
	kit.Open = login(aclSecret)
	kit.LoginRefused = &sinktest.Refusal{Open: login("another-secret"), Class: core.Blocked}
	kit.NoRights = &sinktest.Refusal{Topic: func(testing.TB) string {
		topic := fmt.Sprint("private-", c.topics.Add(1))
		c.CreateTopic(topic, realQueues)
		return topic
	}, Class: core.TopicBlocked}
	return kit
}

func (c *realCluster) mustAsk(t testing.TB, request rocketmq.Command) {
	t.Helper()
	if answer, err := ask(t.Context(), c.BrokerAddr(), request); err != nil || answer.Code != rocketmq.CodeOK {
		t.Fatalf("request %d: code %d %s, %v", request.Code, answer.Code, answer.Remark, err)
	}
}
