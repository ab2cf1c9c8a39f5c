//go:build unix

package servers_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestExternalRedis(t *testing.T) {
	others := servers.Redis(t, servers.RedisOptions{Password: "p@ss"})
	t.Setenv("DELAYBRIDGE_TEST_REDIS", others.URL())
	tests := []struct {
		name            string
		use             func(servers.TB)
		skipped, failed bool
	}{
		{"shared", func(t servers.TB) { servers.SharedRedis(t).MustDo("SET", "left", "over") }, false, false},
		{"emptied for the next", func(t servers.TB) { servers.Redis(t, servers.RedisOptions{}) }, false, false},
		{"other options", func(t servers.TB) { servers.Redis(t, servers.RedisOptions{AOF: servers.AOFAlways}) }, true, false},
		{"cluster", func(t servers.TB) { servers.RedisCluster(t, 1) }, true, false},
		{"kill", func(t servers.TB) { servers.SharedRedis(t).Kill() }, true, false},
		{"not empty", func(t servers.TB) {
			servers.SharedRedis(t).MustDo("SET", "somebody's", "data")
			servers.SharedRedis(t)
		}, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tb := &recordingTB{TB: t}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				test.use(tb)
			}()
			<-ended
			if tb.skipped != test.skipped || tb.failed != test.failed {
				t.Errorf("skipped %t, failed %t", tb.skipped, tb.failed)
			}
		})
	}
}
