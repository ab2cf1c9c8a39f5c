//go:build unix

package servers

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/integration/poll"
)

// The user of a RocketMQ with logins who may do everything.
const (
	RocketMQAdmin       = "admin"
	RocketMQAdminSecret = "admin-secret"
)

const (
	rocketCreateUser = 3001
	rocketCreateRule = 3006
)

// rocketLogins has a broker check logins and rights, but for what this package
// and everyone's heartbeats ask of it.
func rocketLogins() []string {
	open := fmt.Sprintf("%d,%d,%d,%d,%d", rocketCreate, rocketGetRuntime, rocketHeartbeat, rocketCreateUser, rocketCreateRule)
	lines := []string{"authenticationEnabled=true", "authorizationEnabled=true",
		"authenticationWhitelist=" + open, "authorizationWhitelist=" + open,
		fmt.Sprintf(`initAuthenticationUser={"username":%q,"password":%q}`, RocketMQAdmin, RocketMQAdminSecret)}
	for _, what := range []string{"Authentication", "Authorization"} {
		of := strings.ToLower(what)
		class := "org.apache.rocketmq.auth." + of + ".provider."
		lines = append(lines, of+"Provider="+class+"Default"+what+"Provider",
			of+"MetadataProvider="+class+"Local"+what+"MetadataProvider")
	}
	return lines
}

// AddUser adds a user who may do nothing yet.
func (c *RocketMQCluster) AddUser(user, secret string) {
	c.t.Helper()
	c.administer(rocketCreateUser, map[string]string{"username": user},
		map[string]any{"username": user, "password": secret, "userType": "Normal"})
}

// AllowToSend lets a user send to topics, each a name or a prefix and a star,
// besides those that it may send to already.
func (c *RocketMQCluster) AllowToSend(user string, topics ...string) {
	c.t.Helper()
	var entries []any
	for _, topic := range topics {
		entries = append(entries, map[string]any{"resource": "Topic:" + topic, "actions": []string{"Pub"}, "decision": "Allow"})
	}
	subject := "User:" + user
	c.administer(rocketCreateRule, map[string]string{"subject": subject},
		map[string]any{"subject": subject, "policies": []any{map[string]any{"policyType": "Custom", "entries": entries}}})
}

func (c *RocketMQCluster) administer(code int, fields map[string]string, body any) {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err == nil {
		err = poll.Succeeds(rocketAdminIn, func() error {
			_, err := rocketCallWith(c.brokerAddr, code, fields, text)
			if err != nil && strings.Contains(err.Error(), "is existed") { // an earlier try, whose answer was late
				return nil
			}
			return err
		})
	}
	if err != nil {
		c.t.Fatalf("administer rocketmq, request %d: %v", code, err)
	}
}
