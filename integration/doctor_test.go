//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

type object = map[string]any

// doctor runs the command, and returns what it has found by what that is about.
func doctor(t *testing.T, config object, wantCode int) map[string]core.Finding {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "delaybridge.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.Command(path, "doctor", "--config", file, "-o", "json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || cmd.ProcessState.ExitCode() != wantCode {
		t.Errorf("doctor: %v, %v, want code %d", err, exit, wantCode)
	}
	var found []core.Finding
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("doctor printed %s\n%s: %v", out, stderr.String(), err)
	}
	t.Logf("%s", out)
	by := make(map[string]core.Finding)
	for _, f := range found {
		by[f.About] = f
	}
	return by
}

// wantFindings compares levels and parts of the texts with what is wanted, "LEVEL TEXT".
func wantFindings(t *testing.T, found map[string]core.Finding, want map[string]string) {
	t.Helper()
	for about, levelAndText := range want {
		level, text, _ := strings.Cut(levelAndText, " ")
		f, ok := found[about]
		if !ok || f.Level != level || !strings.Contains(f.Text, text) || (f.Fix == "") != (level == core.FindingOK) {
			t.Errorf("%s: %+v, want %s", about, f, levelAndText)
		}
	}
}

func redisOf(server *servers.RedisServer) object {
	return object{"redis": object{"url": server.URL()}}
}

// TestDoctor runs the command on servers that are as they should be, and on the same ones
// with a fault each.
func TestDoctor(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{Password: "secret", Args: []string{"--maxmemory", "1gb"}})
	kafka := servers.Kafka(t, servers.KafkaOptions{})
	rabbit := servers.RabbitMQ(t)
	// Elsewhere signs of life need no login, and nobody can tell a wrong one before it sends.
	rocket := servers.RocketMQ(t, servers.RocketMQOptions{Logins: true, Config: []string{"authenticationWhitelist=17,28"}})
	topic, strict, queue, rockets := uniqueName("topic"), uniqueName("strict"), uniqueName("queue"), uniqueName("rocket")
	kafka.CreateTopic(topic, 2)
	kafka.CreateTopic(strict, 1, "min.insync.replicas=2")
	rocket.CreateTopic(rockets, 1)
	declareQueue(t, rabbit.URL(), queue)
	if _, err := rabbitChannel(t, rabbit.URL()).QueueDeclare(queue+".quorum", true, false, false, false, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	node, bootstrap, nameServer := rabbit.URL(), kafka.Addrs()[0], rocket.NameServers()[0]
	config := func(topic, queue, rockets, secret string) object {
		login := func(more object) object {
			maps.Copy(more, object{"name_servers": rocket.NameServers(), "access_key": servers.RocketMQAdmin, "secret_key": secret})
			return more
		}
		return object{"store": redisOf(redis),
			"sinks": object{
				"records":  object{"type": "kafka", "config": object{"brokers": kafka.Addrs()}},
				"mails":    object{"type": "amqp", "metric_topics": []string{queue}, "config": object{"urls": []string{node}}},
				"rockets":  object{"type": "rocketmq", "metric_topics": []string{rockets}, "config": login(object{})},
				"anywhere": object{"type": "console"}},
			"sources": object{
				"in":    object{"type": "kafka", "config": object{"brokers": kafka.Addrs(), "topics": []string{topic}, "group": "g-" + topic, "sink": "mails", "topic": queue, "on_bad_record": "stop"}},
				"mail":  object{"type": "amqp", "config": object{"urls": []string{node}, "queues": []string{queue}, "sink": "rockets", "topic": rockets, "on_bad_record": "stop"}},
				"early": object{"type": "rocketmq", "config": login(object{"topics": []string{rockets}, "group": "g", "sink": "records", "topic": topic, "on_bad_record": "stop"})},
			}}
	}
	_, address, _ := strings.Cut(node, "@")
	address = strings.TrimSuffix(address, "/")

	found := doctor(t, config(topic, queue, rockets, servers.RocketMQAdminSecret), 0)
	wantFindings(t, found, map[string]string{
		"redis: version": "ok ", "redis: eviction": "ok noeviction", "redis: append-only file": "ok on", "redis: durability": "ok memory",
		"redis: clock": "ok ", "redis: rights": "ok ", "redis: memory": "ok no instance runs",
		"sink records: " + bootstrap: "ok answers", "sink records: topic " + topic: "warning 2 partitions, 1 replicas",
		"source in: " + bootstrap: "ok answers", "source in: group g-" + topic: "ok may be used",
		"sink mails: " + address: "ok login", "sink mails: queue " + queue: "ok 0 messages, 0 consumers", "source mail: queue " + queue: "ok ",
		"sink rockets: name server " + nameServer: "ok ", "sink rockets: broker broker-a at " + rocket.BrokerAddr(): "ok answers", "sink rockets: topic " + rockets: "ok on 1 brokers", "source early: topic " + rockets: "ok ",
		"sink anywhere: health": "ok ",
	})
	if n, err := redis.Do("DBSIZE"); err != nil || n != int64(0) {
		t.Errorf("Redis has %v keys, %v", n, err)
	}

	missing := config(strict, queue+".none", "none", "wrong")
	missing["sinks"].(object)["denied"] = object{"type": "amqp", "config": object{"urls": []string{"amqp://nobody:wrong@" + address}}}
	found = doctor(t, missing, 1)
	wantFindings(t, found, map[string]string{"sink records: topic " + strict: "problem min.insync.replicas 2: writes with acks=all are refused",
		"sink mails: queue " + queue + ".none": "problem NOT_FOUND", "source mail: queue " + queue + ".none": "problem NOT_FOUND",
		"sink rockets: topic none": "problem none", "sink rockets: broker broker-a at " + rocket.BrokerAddr(): "problem signature",
		"sink denied: " + address: "problem ACCESS_REFUSED", "redis: rights": "ok "})
	limited := config("none", queue+".quorum", rockets, servers.RocketMQAdminSecret)
	limited["store"] = object{"redis": object{"url": strings.Replace(redis.URL(), "secret", "wrong", 1)}}
	found = doctor(t, limited, 1)
	wantFindings(t, found, map[string]string{"sink records: topic none": "problem Unknown Topic", "redis: connection": "problem WRONGPASS"})
	if f := found["source mail: queue "+queue+".quorum"]; f.Level == core.FindingWarning && !strings.Contains(f.Text, "20, the default") {
		t.Errorf("%+v", f)
	}
}

// TestDoctorOfBadServers: a server that is unsafe, unreachable, hangs or shows a
// certificate that ends is told of, in bounded time, and hides no other.
func TestDoctorOfBadServers(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFOff, Args: []string{"--maxmemory-policy", "allkeys-lru"}})
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	hung, closed := hanging.Addr().String(), "127.0.0.1:1"
	front := func(until time.Duration) (addr, cert string) {
		cert, key := servers.Certificate(t, time.Now().Add(until))
		return servers.TLSFront(t, redis.Addr(), cert, key, ""), cert
	}
	soon, soonCert := front(time.Hour)
	expired, expiredCert := front(-time.Hour)
	secured := func(addr, cert string) object {
		return object{"type": "kafka", "config": object{"brokers": []string{addr}, "tls": object{"ca": cert}}}
	}
	began := time.Now()
	found := doctor(t, object{"store": redisOf(redis), "sinks": object{
		"k": object{"type": "kafka", "config": object{"brokers": []string{hung, closed}}},
		"a": object{"type": "amqp", "config": object{"urls": []string{"amqp://" + hung + "/", "amqp://" + closed + "/"}}},
		"r": object{"type": "rocketmq", "config": object{"name_servers": []string{hung, closed}}},
		"e": secured(expired, expiredCert),
	}}, 1)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	wantFindings(t, found, map[string]string{
		"redis: eviction": "problem allkeys-lru", "redis: append-only file": "problem off", "redis: memory": "warning without maxmemory",
		"sink k: " + hung: "problem ", "sink k: " + closed: "problem refused", "sink a: " + hung: "problem ", "sink a: " + closed: "problem refused",
		"sink r: name server " + hung: "problem ", "sink r: name server " + closed: "problem refused",
		"sink e: " + expired: "problem expired", "file: " + expiredCert: "problem expired",
	})
	store := object{"redis": object{"addrs": []string{soon}, "tls": object{"enabled": true, "ca": soonCert}}}
	found = doctor(t, object{"store": store, "sinks": object{"out": object{"type": "console"}}}, 1)
	wantFindings(t, found, map[string]string{"redis: " + soon: "warning valid until", "file: " + soonCert: "warning valid until", "redis: eviction": "problem "})
	hangs := object{"redis": object{"addrs": []string{hung}}}
	found = doctor(t, object{"store": hangs, "sinks": object{"out": object{"type": "console"}}}, 1)
	wantFindings(t, found, map[string]string{"redis: connection": "problem ", "sink out: health": "ok "})
}
