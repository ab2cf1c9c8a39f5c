//go:build unix

package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// snippet returns the indented block of the README behind a mark.
func snippet(t *testing.T, mark string) string {
	t.Helper()
	return snippetOf(t, "../README.md", mark)
}

func snippetOf(t *testing.T, file, mark string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- "+mark+" -->\n\n")
	if !found {
		t.Fatalf("%s has no %s", file, mark)
	}
	var lines []string
	for line := range strings.Lines(rest) {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok {
			break
		}
		lines = append(lines, code)
	}
	return strings.Join(lines, "")
}

// shell runs what a reader would, with programs in place of those in tools.
func shell(t *testing.T, script, tools string) string {
	t.Helper()
	cmd := exec.Command("bash", "-ceu", script)
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return string(out)
}

// TestReadmeWaysIn runs the README's four ways in as they stand there, but for
// the ports: a message by each arrives where the README says.
func TestReadmeWaysIn(t *testing.T) {
	t.Parallel()
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka3})
	for _, topic := range []string{"reminders", "orders", "orders.delayed", "orders.rejected"} {
		cluster.CreateTopic(topic, 1)
	}
	broker := cluster.Addrs()[0]
	bridge := serve(t, readmeConfig(t, cluster, broker), output(t))
	grpc := regexp.MustCompile(`grpc=([0-9.:]+)`).FindStringSubmatch(bridge.Logs.String())
	if grpc == nil {
		t.Fatalf("no gRPC listener:\n%s", &bridge.Logs)
	}
	places := strings.NewReplacer("http://127.0.0.1:7420", bridge.url, "127.0.0.1:7421", grpc[1], "127.0.0.1:9092", broker)
	reminders, orders := newInbox(consumeKafka(t, cluster.Addrs(), "reminders")), newInbox(consumeKafka(t, cluster.Addrs(), "orders"))
	tools, sent := t.TempDir(), time.Now()

	if answer := shell(t, places.Replace(snippet(t, "way: http")), tools); !strings.Contains(answer, `"id":"order-42"`) {
		t.Errorf("HTTP answered %s", answer)
	}
	buildGRPCurl(t, tools)
	if answer := shell(t, places.Replace(snippet(t, "way: grpc")), tools); !strings.Contains(answer, `"id": "order-43"`) {
		t.Errorf("gRPC answered %s", answer)
	}
	produceAsWritten(t, places.Replace(snippet(t, "way: kafka")), tools)

	missing := map[string]bool{"order-42": true, "order-43": true} // in any order, if the first is tried again
	for range len(missing) {
		got := reminders.next(t)
		id := string(got.header("delaybridge-id"))
		if !missing[id] || string(got.body) != "pay soon" || got.at.Before(sent.Add(2*time.Second)) {
			t.Errorf("%q with the id %s arrived %s after it was sent, want one of %v", got.body, id, got.at.Sub(sent), missing)
		}
		delete(missing, id)
	}
	if got := orders.next(t); string(got.body) != "pay soon" || got.at.Before(sent.Add(2*time.Second)) {
		t.Errorf("%q arrived %s after it was sent", got.body, got.at.Sub(sent))
	}
	bridge.stop()
}

// TestReadmeOnAStockRedis runs the README's commands, one after the other, as they
// stand there but for the ports, on a Redis as it comes: the bridge starts, and no
// example does nothing because another has used its id.
func TestReadmeOnAStockRedis(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{AOF: servers.AOFOff})
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	tools, dir := filepath.Dir(path), t.TempDir()
	host, port, err := net.SplitHostPort(redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	places := strings.NewReplacer("-h 127.0.0.1 -p 6379", "-h "+host+" -p "+port, "127.0.0.1:6379", redis.Addr())
	read := func(mark string) string { return "cd " + dir + "\n" + places.Replace(snippet(t, mark)) }
	shell(t, read("run: config"), tools)
	config, err := os.ReadFile(filepath.Join(dir, "delaybridge.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shell(t, read("run: redis"), tools)
	bridge := serve(t, string(config)+"http: {listen: \"127.0.0.1:0\"}\n", output(t))
	said := shell(t, "export DELAYBRIDGE_URL="+bridge.url+"\n"+read("run: commands"), tools)
	said += shell(t, strings.ReplaceAll(snippet(t, "way: http"), "http://127.0.0.1:7420", bridge.url), tools)
	if strings.Contains(said, "duplicate") || strings.Contains(said, "conflict") || !strings.Contains(said, `"state":"scheduled"`) {
		t.Errorf("an example does nothing:\n%s", said)
	}
	bridge.stop()
}

// TestReadmeIDsDiffer: in commands that send, no id appears twice.
func TestReadmeIDsDiffer(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, found := range regexp.MustCompile(`send .*--id (\S+)|"id":"([^"]+)","topic"`).FindAllStringSubmatch(string(readme), -1) {
		id := found[1] + found[2]
		if seen[id] {
			t.Errorf("the id %s is sent twice", id)
		}
		seen[id] = true
	}
	if len(seen) < 3 {
		t.Errorf("found the ids %v", seen)
	}
}

// readmeConfig is a bridge to the cluster, with the README's source.
func readmeConfig(t *testing.T, cluster *servers.KafkaCluster, broker string) string {
	t.Helper()
	var shown struct {
		Sources map[string]sourceConfig `json:"sources" yaml:"sources"`
	}
	text := strings.ReplaceAll(snippet(t, "config: kafka"), "127.0.0.1:9092", broker)
	if err := yaml.Unmarshal([]byte(text), &shown); err != nil || len(shown.Sources) != 1 {
		t.Fatalf("%d sources, %v in\n%s", len(shown.Sources), err, text)
	}
	config := withSources(t, bridgeConfig(t, map[string]*target{"kafka": newKafkaTarget(cluster, "orders")}), shown.Sources)
	return strings.TrimSuffix(strings.TrimSpace(config), "}") + `,"grpc":{"listen":"127.0.0.1:0","reflection":true}}`
}

func buildGRPCurl(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", dir, "github.com/fullstorydev/grpcurl/cmd/grpcurl")
	cmd.Dir = "../.ci/tools/grpcurl"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build grpcurl: %v: %s", err, out)
	}
}

// produceAsWritten runs a line with kafka-console-producer.sh: what the shell
// makes of its input and its arguments goes to the class that the script starts.
func produceAsWritten(t *testing.T, script, tools string) {
	t.Helper()
	said := filepath.Join(tools, "said")
	stub := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >%[1]s.args\ncat >%[1]s.input\n", said)
	if err := os.WriteFile(filepath.Join(tools, "kafka-console-producer.sh"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	shell(t, script, tools)
	input, err := os.ReadFile(said + ".input")
	if err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(said + ".args")
	if err != nil {
		t.Fatal(err)
	}
	java := append([]string{"kafka.tools.ConsoleProducer"}, strings.Split(strings.TrimSpace(string(args)), "\n")...)
	servers.Java(t, "kafka", servers.Kafka3, string(input), append(java, "--request-timeout-ms", patientProducer)...)
}

// TestReadmeGoSnippet: the line stands in an example that is compiled.
func TestReadmeGoSnippet(t *testing.T) {
	line := strings.TrimSpace(snippet(t, "way: go"))
	example, err := os.ReadFile("../client/kafkadelay/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(example), line) {
		t.Errorf("no example of kafkadelay has: %s", line)
	}
}
