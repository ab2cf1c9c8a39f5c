package redisstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// finding is the one about something.
func finding(t *testing.T, found []core.Finding, about string) core.Finding {
	t.Helper()
	n := slices.IndexFunc(found, func(f core.Finding) bool { return f.About == about })
	if n < 0 {
		t.Fatalf("nothing about %s: %+v", about, found)
	}
	return found[n]
}

// TestDiagnoseTellsWhenRedisIsFull: from what the instances tell of the last hour.
func TestDiagnoseTellsWhenRedisIsFull(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{Args: []string{"--maxmemory", "100mb"}})
	config := Config{Addrs: []string{server.Addr()}, Lease: time.Minute}
	s := open(t, config)
	accepted := uint64(0)
	s.Announce(func() []byte {
		report, err := json.Marshal(core.Instance{Started: time.Now().Add(-2 * time.Hour),
			Sinks: []core.Work{{Sink: "orders", Last60m: core.Recent{Counts: core.Counts{Accepted: accepted, Delivered: 3600}}}}})
		if err != nil {
			t.Error(err)
		}
		return report
	})
	park := func(count int) {
		messages := make([]*core.Message, count)
		for n := range messages {
			messages[n] = &core.Message{ID: fmt.Sprint(count, "-", n), Sink: "orders", Topic: "t", Delay: time.Hour, Body: make([]byte, 8<<10)}
		}
		parkAll(t, s, messages...)
	}
	park(1)
	memory := func(perSecond uint64) core.Finding {
		accepted = (perSecond + 1) * 3600
		s.Announce(*s.tell.Load())
		s.refreshFormats(t.Context(), s.client)
		return finding(t, Diagnose(t.Context(), config, []string{"orders"}), "memory")
	}
	if f := memory(1); f.Level != core.FindingOK || !strings.Contains(f.Text, "their size is not known") {
		t.Errorf("with one message: %+v", f)
	}
	park(leastForMean - 1)
	for perSecond, want := range map[uint64]core.Finding{
		0: {Level: core.FindingOK, Text: "not filling up"},
		1: {Level: core.FindingWarning, Text: "at the rate of the last hour, which is 1 more messages a second, of"},
	} {
		if f := memory(perSecond); f.Level != want.Level || !strings.Contains(f.Text, want.Text) || (f.Fix == "") != (f.Level == core.FindingOK) {
			t.Errorf("%d: %+v, want %+v", perSecond, f, want)
		}
	}
}

// TestDiagnoseKnowsTheRights: the user of the documentation has all of them, and each that
// is taken away is found, without a trace in Redis.
func TestDiagnoseKnowsTheRights(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]string{"present": "", "6.2": servers.Redis62(t)} {
		t.Run(name, func(t *testing.T) { wantRightsKnown(t, servers.Redis(t, servers.RedisOptions{Program: program})) })
	}
}

func wantRightsKnown(t *testing.T, server *servers.RedisServer) {
	user := documentedUser(t, "~delaybridge:*")
	makeUser(t, server, user)
	config := asUser(Config{Addrs: []string{server.Addr()}})
	if f := finding(t, Diagnose(t.Context(), config, nil), "rights"); f.Level != core.FindingOK {
		t.Errorf("the documented user: %+v", f)
	}
	for _, right := range user {
		command, ok := strings.CutPrefix(right, "+")
		if !ok || slices.Contains([]string{"hello", "auth", "select", "client|setname", "config|get", "info", "hsetnx", "unsubscribe"}, command) ||
			command == "waitaof" && !atLeast(versionOf(server), 7, 2) {
			continue // what connects, and what harmless excepts
		}
		name, _, _ := strings.Cut(strings.ToUpper(command), "|") // 6.2 can't deny a part of one
		server.MustDo("ACL", "SETUSER", aclUser, "-"+name)
		if f := finding(t, Diagnose(t.Context(), config, nil), "rights"); f.Level != core.FindingProblem || !strings.Contains(f.Text+",", " "+name+",") {
			t.Errorf("without %s: %+v", command, f)
		}
		server.MustDo("ACL", "SETUSER", aclUser, "+"+command)
	}
	if keys := server.MustDo("DBSIZE"); keys != int64(0) {
		t.Errorf("Redis has %v keys", keys)
	}
}

func TestDiagnoseACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 3)
	cluster.Masters[2].MustDo("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	found := Diagnose(t.Context(), clusterConfig(t, cluster), nil)
	if f := finding(t, found, "eviction"); f.Level != core.FindingProblem || f.Fix == "" {
		t.Errorf("%+v", f)
	}
	if f := finding(t, found, "rights"); f.Level != core.FindingOK {
		t.Errorf("%+v", f)
	}
}
