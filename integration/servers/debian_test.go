//go:build unix

package servers_test

import (
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestVersionsAreThoseAskedFor(t *testing.T) {
	for _, test := range []struct{ version, want string }{
		{"6.2", "redis_version:6.2."}, {"8.0", "redis_version:8.0."}, {"valkey-8.1", "valkey_version:8.1."},
	} {
		t.Run(test.version, func(t *testing.T) {
			t.Setenv("REDIS", test.version)
			if info, _ := servers.Redis(t, servers.RedisOptions{}).MustDo("INFO", "server").(string); !strings.Contains(info, test.want) {
				t.Errorf("no %s in\n%s", test.want, info)
			}
		})
	}
	t.Run("rabbitmq", func(t *testing.T) {
		t.Setenv("RABBITMQ", "4.0")
		if got := servers.RabbitMQ(t).Ctl("version"); !strings.HasPrefix(got, "4.0.") {
			t.Errorf("version %s", got)
		}
	})
}

func TestUnknownVersionsAreRefused(t *testing.T) {
	t.Setenv("REDIS", "5")
	t.Setenv("RABBITMQ", "5")
	for name, start := range map[string]func(servers.TB){
		"redis":    func(t servers.TB) { servers.Redis(t, servers.RedisOptions{}) },
		"rabbitmq": func(t servers.TB) { servers.RabbitMQ(t) },
	} {
		tb := &recordingTB{TB: t}
		ended := make(chan struct{})
		go func() { defer close(ended); start(tb) }()
		<-ended
		if !tb.failed {
			t.Errorf("%s started", name)
		}
	}
}
