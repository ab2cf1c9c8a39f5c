//go:build unix

package kafkasource

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestSecured reads over TLS with a login that runs out again and again, from
// both generations of Kafka.
func TestSecured(t *testing.T) {
	t.Parallel()
	for _, version := range []string{servers.Kafka3, servers.Kafka4} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			properties, ca := servers.KafkaSecured(t, "reader", "correct horse")
			r := rigOf(t, servers.Kafka(t, servers.KafkaOptions{Version: version, Config: properties}))
			addr := r.SecuredAddr()
			topic, rejects := r.topic(".delayed", 2), r.topic(".rejected", 1)
			safe := map[string]any{"brokers": []string{addr}, "reject_topic": rejects,
				"tls": map[string]any{"ca": ca}, "sasl": map[string]any{"mechanism": "plain", "username": "reader", "password": "correct horse"}}
			src := r.run(r.source([]string{topic}, safe))
			for n := range 5 {
				r.fill(topic, 2, n*100, (n+1)*100)
				r.store.Await(t, (n+1)*100)
				time.Sleep(time.Second) // so that logins run out
			}
			r.produce(topic, 0, text("k", "untagged"))
			r.read(rejects, 1)
			if err := src.Stop(); err != nil {
				t.Error(err)
			}
			wantOnce(t, r.store, 500)

			wrong := map[string]any{"brokers": []string{addr}, "tls": map[string]any{"ca": ca},
				"sasl": map[string]any{"mechanism": "plain", "username": "reader", "password": "wrong"}}
			if err := r.run(r.source([]string{topic}, wrong)).Stop(); err != nil { // it waits for an operator
				t.Error(err)
			}
		})
	}
}
