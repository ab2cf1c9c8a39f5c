//go:build unix

package servers_test

import (
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Main(m)) }

func TestRedisKeepsWhatItConfirmed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		aof  servers.AOF
		want any
	}{
		{"every second", servers.AOFEverySec, "1"},
		{"always", servers.AOFAlways, "1"},
		{"off", servers.AOFOff, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			redis := servers.Redis(t, servers.RedisOptions{AOF: test.aof})
			redis.MustDo("SET", "k", "1")
			redis.Kill()
			if _, err := redis.Do("PING"); err == nil {
				t.Fatal("answers after Kill")
			}
			redis.Start()
			if got := redis.MustDo("GET", "k"); got != test.want {
				t.Errorf("after kill and start: k = %v, want %v", got, test.want)
			}
		})
	}
}

func TestRedisPause(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	redis.Pause()
	if _, err := redis.Do("PING"); err == nil {
		t.Error("answers while paused")
	}
	redis.Resume()
	redis.MustDo("PING")
	redis.Pause()
	redis.Stop() // a paused server can be stopped
	redis.Start()
}

func TestRedisReplica(t *testing.T) {
	t.Parallel()
	master := servers.Redis(t, servers.RedisOptions{})
	replica := servers.Redis(t, servers.RedisOptions{ReplicaOf: master, Args: []string{"--replica-priority", "7"}})
	if n := master.MustDo("WAIT", "1", "20000"); n != int64(1) {
		t.Errorf("WAIT 1 = %v, want 1", n)
	}
	if got := replica.MustDo("CONFIG", "GET", "replica-priority").([]any)[1]; got != "7" {
		t.Errorf("replica-priority = %v, want 7", got)
	}
}

func TestSharedRedisIsEmptiedForEachTest(t *testing.T) {
	var addrs []string
	for range 2 {
		t.Run("test", func(t *testing.T) {
			redis := servers.SharedRedis(t)
			if size := redis.MustDo("DBSIZE"); size != int64(0) {
				t.Errorf("holds %v keys", size)
			}
			redis.MustDo("SET", "k", "1")
			addrs = append(addrs, redis.Addr())
		})
	}
	if addrs[0] != addrs[1] {
		t.Errorf("two servers: %s", addrs)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("REDIS", "") // that of PATH
	for _, required := range []string{"", "1"} {
		t.Setenv("CI", "")
		t.Setenv("DELAYBRIDGE_REQUIRE_SERVERS", required)
		tb := &recordingTB{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			servers.Redis(tb, servers.RedisOptions{})
		}()
		<-ended
		if tb.failed != (required == "1") || tb.skipped == tb.failed {
			t.Errorf("required %q: skipped %t, failed %t", required, tb.skipped, tb.failed)
		}
	}
}
