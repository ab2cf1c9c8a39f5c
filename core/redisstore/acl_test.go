package redisstore

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/storetest"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// The tests here run the store as the user that docs/redis.md tells operators
// to make, with the very rules that stand there.

const (
	aclUser   = "delaybridge"
	aclSecret = "a-secret-of-tests"
)

func TestUserOfDocs(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	makeUser(t, server, documentedUser(t, "~delaybridge:*"))
	h := harness(func(t *testing.T) Config { return asUser(Config{Addrs: []string{server.Addr()}}) })
	t.Run("suite", func(t *testing.T) { storetest.Run(t, h) })
	t.Run("bridge", func(t *testing.T) { deliverOne(t, asUser(Config{Addrs: []string{server.Addr()}})) })
	wantNoRefusal(t, server)
	t.Run("refused", func(t *testing.T) { wantRefusals(t, server) })
}

// The oldest Redis that is supported is tried with the rights that are left there.
func TestUserOfDocsOnRedis62(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{Program: servers.Redis62(t)})
	makeUser(t, server, documentedUser(t, "~delaybridge:*"))
	storetest.Run(t, harness(func(t *testing.T) Config { return asUser(Config{Addrs: []string{server.Addr()}}) }))
	wantNoRefusal(t, server)
	wantRefusals(t, server)
}

func TestUserOfDocsWaitsForReplicas(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFAlways})
	makeUser(t, server, documentedUser(t, "~delaybridge:*"))
	servers.Redis(t, servers.RedisOptions{ReplicaOf: server})
	for _, level := range []string{DurabilityReplicated, DurabilityFsync} {
		config := asUser(Config{Addrs: []string{server.Addr()}, Durability: level, DurabilityTimeout: time.Minute})
		s := open(t, config)
		r := s.Park(t.Context(), &core.Message{ID: "a", Sink: "orders", Topic: "t", Delay: time.Hour})[0]
		if r.Err != nil || r.Durability != level {
			t.Errorf("%s: %+v", level, r)
		}
	}
	wantNoRefusal(t, server)
}

func TestUserOfDocsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisCluster(t, 3)
	rules := append(documentedUser(t, "~delaybridge:*"), documentedExtra(t)...)
	for _, node := range cluster.Masters {
		makeUser(t, node, rules)
	}
	storetest.Run(t, harness(func(t *testing.T) Config { return asUser(clusterConfig(t, cluster)) }))
	for _, node := range cluster.Masters {
		wantNoRefusal(t, node)
	}
}

func TestUserOfDocsOnSentinels(t *testing.T) {
	t.Parallel()
	group := servers.Sentinel(t, 1, servers.Calm)
	for _, server := range []*servers.RedisServer{group.Master, group.Replica} {
		makeUser(t, server, documentedUser(t, "~delaybridge:*"))
	}
	sentinel := group.Sentinels[0]
	makeUser(t, sentinel, documentedUser(t, "+sentinel|get-master-addr-by-name"))
	config := asUser(Config{Addrs: group.Addrs(), MasterName: servers.SentinelName})
	config.SentinelUsername, config.SentinelPassword = aclUser, aclSecret
	deliverOne(t, config)
	wantNoRefusal(t, group.Master)
	wantNoRefusal(t, sentinel)
}

// documentedUser returns the words of that ACL SETUSER in docs/redis.md which
// has the word given. An older Redis does not know waitaof, as it says there.
func documentedUser(t *testing.T, with string) []string {
	t.Helper()
	for block := range strings.SplitSeq(docsOfRedis(t), "\n\n") {
		words := strings.Fields(block)
		if strings.HasPrefix(block, "    ACL SETUSER ") && slices.Contains(words, with) {
			return words
		}
	}
	t.Fatalf("docs/redis.md has no ACL SETUSER with %s", with)
	return nil
}

// documentedExtra are the rights that a cluster needs besides.
func documentedExtra(t *testing.T) []string {
	t.Helper()
	_, rest, found := strings.Cut(docsOfRedis(t), "On the nodes of a cluster also\n`")
	rules, _, closed := strings.Cut(rest, "`")
	if !found || !closed {
		t.Fatal("docs/redis.md does not say what a cluster needs besides")
	}
	return strings.Fields(rules)
}

func docsOfRedis(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makeUser runs the command as it is documented, with another password.
func makeUser(t *testing.T, server *servers.RedisServer, command []string) {
	t.Helper()
	command = slices.Clone(command)
	for n, word := range command {
		command[n] = strings.Replace(word, ">SECRET", ">"+aclSecret, 1)
	}
	if !atLeast(versionOf(server), 7, 2) {
		command = slices.DeleteFunc(command, func(word string) bool { return word == "+waitaof" })
	}
	server.MustDo(command...)
	server.MustDo("ACL", "LOG", "RESET")
}

func versionOf(server *servers.RedisServer) string {
	info, _ := server.MustDo("INFO", "server").(string)
	return parseInfo(info)["redis_version"]
}

// asUser has a prefix of its own within the pattern of the documented rules.
func asUser(c Config) Config {
	c = withOutbox(c)
	c.Username, c.Password = aclUser, aclSecret
	c.Prefix, c.Lease = fmt.Sprintf("delaybridge:t%d", prefixes.Add(1)), suiteLease
	return c
}

// deliverOne parks a message while the sink is served, so that its owner is
// woken, and waits until it has gone out and the bridge has ended.
func deliverOne(t *testing.T, c Config) {
	t.Helper()
	s := open(t, c)
	sink := newCollector(1)
	stop := serve(t, s, sink, core.RetryPolicy{})
	defer stop()
	parkUntilAccepted(t, s, &core.Message{ID: "a", Sink: "orders", Topic: "t"})
	sink.await(t)
	until(t, "it is healthy", func() bool { return s.Health(t.Context()) == nil })
}

// wantNoRefusal fails if the server has refused the user anything: also what
// the store, or the client library, went on without.
func wantNoRefusal(t *testing.T, server *servers.RedisServer) {
	t.Helper()
	refusals, _ := server.MustDo("ACL", "LOG").([]any)
	for _, refusal := range refusals {
		t.Errorf("refused: %v", refusal)
	}
	server.MustDo("ACL", "LOG", "RESET")
}

// wantRefusals tries what one who has the password, and no more, must not do.
func wantRefusals(t *testing.T, server *servers.RedisServer) {
	server.MustDo("SET", "others", "1")
	server.MustDo("HSET", "delaybridge2:meta", "format", "1")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: aclUser, Password: aclSecret, DisableIdentity: true, Protocol: 2})
	defer client.Close()
	foreign, err := client.ScriptLoad(t.Context(), "return redis.call('HGETALL', 'delaybridge2:meta')").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"FLUSHALL", "FLUSHDB", "SHUTDOWN", "SAVE", "BGREWRITEAOF", "MONITOR", "SCRIPT FLUSH", "SCRIPT KILL",
		"CONFIG SET appendonly no", "CONFIG REWRITE", "ACL LIST", "ACL WHOAMI", "CLIENT LIST", "CLIENT KILL ID 1", "REPLICAOF NO ONE", "FAILOVER",
		"EVAL return 0", "FUNCTION LIST", "MODULE LIST", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "SWAPDB 0 1",
		"DEL delaybridge:meta", "RENAME delaybridge:meta delaybridge:x", "EXPIRE delaybridge:meta 1", "GET delaybridge:meta", "DUMP delaybridge:meta",
		"HGETALL delaybridge2:meta", "HSET delaybridge2:meta format 2", "HGETALL others", "HSET others a b", "HGETALL delaybridge",
		"PUBLISH others x", "SUBSCRIBE others", "PSUBSCRIBE *", "EVALSHA " + foreign + " 0", "EVALSHA " + foreign + " 1 delaybridge2:meta",
	} {
		args := make([]any, 0, 4)
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		switch {
		case command == "EVAL return 0":
			args = []any{"EVAL", "return 0", 0}
		case command == "FUNCTION LIST" && !atLeast(versionOf(server), 7, 0):
			continue // which has no functions
		}
		err := client.Do(t.Context(), args...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "permission") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%s: got %v, want it refused", command, err)
		}
	}
	if got, err := server.Do("GET", "others"); err != nil || got != "1" {
		t.Errorf("another's key is %v, %v", got, err)
	}
}
