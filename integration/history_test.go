//go:build unix

package integration

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestHistory runs docs/history.md: events from a bridge through Kafka into PostgreSQL, and
// the queries.
func TestHistory(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t)
	cluster := servers.Kafka(t, servers.KafkaOptions{Version: servers.Kafka4})
	topic, events := uniqueName("orders"), uniqueName("events")
	cluster.CreateTopic(topic, 4)
	cluster.CreateTopic(events, 4)
	g := newKafkaTarget(cluster, topic)
	var config map[string]any
	if err := json.Unmarshal([]byte(bridgeConfig(t, map[string]*target{"kafka": g})), &config); err != nil {
		t.Fatal(err)
	}
	config["events"] = map[string]any{"sink": "kafka", "topic": events, "bodies": true}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	bridge := serve(t, string(text), output(t))
	program := filepath.Join(t.TempDir(), "history")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/history").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	sql(t, database, contents(t, "../examples/history/schema.sql"))
	send := func(message string) {
		t.Helper()
		answer, err := http.Post(bridge.url+"/v1/messages", "application/json", strings.NewReader(message))
		if err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatalf("%v %v", answer, err)
		}
		answer.Body.Close()
	}
	send(`{"id":"order-42","topic":"` + g.topic + `","delay":"300ms","body":"it's \"quoted\", \\u0000, a \u0000 and a\ttab\nand more"}`)
	send(`{"id":"order-43","topic":"` + g.topic + `","delay":"1h","key":"k"}`)
	request, _ := http.NewRequest(http.MethodDelete, bridge.url+"/v1/messages/order-43?key=k", nil)
	if answer, err := http.DefaultClient.Do(request); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", answer, err)
	}
	copying := func(group string) *exec.Cmd {
		cmd := exec.Command(program, "-brokers", cluster.Addrs()[0], "-topic", events, "-group", group, "-database", database)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	query := regexp.MustCompile(`(?m)^    SELECT time,[^;]*;$`).FindString(contents(t, "../docs/history.md"))
	history := func(id string) string {
		return sql(t, database, strings.Replace(query, "order-42", id, 1))
	}
	first := copying("history")
	poll.Until(t, 2*time.Minute, "the history is there", func() bool {
		return strings.Count(history("order-42"), "\n") == 2 && strings.Count(history("order-43"), "\n") == 2
	})
	for id, want := range map[string]string{
		"order-42": `^\S+ \S+\|accepted\|kafka\|` + g.topic + `\|\|\n\S+ \S+\|delivered\|kafka\|` + g.topic + `\|1\|\n$`,
		"order-43": `^\S+ \S+\|accepted\|kafka\|` + g.topic + `\|\|\n\S+ \S+\|cancelled\|kafka\|` + g.topic + `\|\|\n$`,
	} {
		if got := history(id); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s:\n%s", id, got)
		}
	}
	first.Process.Kill()
	copying("again") // from the beginning
	send(`{"id":"order-44","topic":"` + g.topic + `","delay":"0s"}`)
	poll.Until(t, 2*time.Minute, "all is copied again", func() bool { return strings.Contains(history("order-44"), "|delivered|") })
	if got := sql(t, database, "SELECT count(*), count(DISTINCT event_id) FROM message_events WHERE id < 'order-44'"); got != "4|4\n" {
		t.Errorf("%s events", got)
	}
}

// sql runs statements and returns what they print.
func sql(t *testing.T, database, text string) string {
	t.Helper()
	cmd := exec.Command("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--tuples-only", "--no-align", "--dbname="+database)
	cmd.Stdin, cmd.Stderr = strings.NewReader(text), t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(out)
}
