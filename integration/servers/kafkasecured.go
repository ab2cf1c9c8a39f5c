//go:build unix

package servers

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// KafkaSecured returns properties of a Kafka of one node whose second listener, at
// SecuredAddr, wants TLS and a login, here by SASL PLAIN. A login ends after two
// seconds. The file ca has the listener's certificate.
func KafkaSecured(t TB, user, password string) (properties map[string]string, ca string) {
	t.Helper()
	ca, key := Certificate(t, time.Now().Add(time.Hour))
	oneLine := func(file string) string {
		pem, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return strings.ReplaceAll(strings.TrimSpace(string(pem)), "\n", "\\n")
	}
	listener := "listener.name.broker." // a single node has no other use for it
	return map[string]string{
		"inter.broker.listener.name":     "CLIENT",
		"listener.security.protocol.map": "CLIENT:PLAINTEXT,BROKER:SASL_SSL,CONTROLLER:PLAINTEXT",
		"sasl.enabled.mechanisms":        "PLAIN",
		listener + "plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required user_` +
			user + `="` + password + `";`,
		listener + "ssl.keystore.type":              "PEM",
		listener + "ssl.keystore.certificate.chain": oneLine(ca),
		listener + "ssl.keystore.key":               oneLine(key),
		"connections.max.reauth.ms":                 "2000",
	}, ca
}

// SecuredAddr is the host:port of the listener that KafkaSecured is about.
func (c *KafkaCluster) SecuredAddr() string {
	port, _ := strconv.Atoi(portOf(c.addrs[0]))
	return loopback(port + 1)
}
