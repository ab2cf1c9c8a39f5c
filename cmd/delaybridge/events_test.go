//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

const eventsConfig = `store: {redis: {url: "%s"}}
http: {listen: "127.0.0.1:0", tokens: [` + firstToken + `]}
events: {sink: told, bodies: true}
sinks:
  out: {type: console}
  told: {type: console, config: {format: json}}
`

// TestEventsIntoASink: what happens is told in the sink, also after a reload has changed it,
// and no event is told of events.
func TestEventsIntoASink(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	s := serveFiles(t, map[string]string{"c.yaml": fmt.Sprintf(eventsConfig, redis.URL())})
	await := func(event, id string) {
		t.Helper()
		poll.Until(t, time.Minute, event+" of "+id+" is told", func() bool {
			return strings.Contains(s.printed.String(), `"topic":"delaybridge.events","key":"`+id+`"`) &&
				strings.Contains(s.printed.String(), `\"event\":\"`+event+`\"`)
		})
	}
	s.ask("POST", "/v1/messages", `{"id":"first","sink":"out","topic":"t","body":"hello","delay":"0s"}`)
	await("accepted", "first")
	await("delivered", "first")
	s.edit("format: json", `format: "json"`, "out: {type: console}", "out: {type: console}\n  third: {type: console}")
	s.cli(exitOK, "reload")
	await("reloaded", "first")
	s.ask("POST", "/v1/messages", `{"id":"second","sink":"out","topic":"t","delay":"1h"}`)
	s.cli(exitOK, "cancel", "--sink", "out", "second")
	await("cancelled", "second")
	if err := s.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if got := s.printed.String(); strings.Contains(got, `\"sink\":\"told\"`) || strings.Count(got, `\"body\":\"hello\"`) != 2 {
		t.Errorf("printed:\n%s", got)
	}
}

// TestEventsRefused: what events need is checked before anything is opened.
func TestEventsRefused(t *testing.T) {
	t.Parallel()
	const config = "store: {redis: {url: \"redis://127.0.0.1:1\"}}\nevents: {sink: %s, topic: %s}\nsinks: {k: {type: kafka, config: {brokers: [\"127.0.0.1:1\"]}}}\n"
	for want, text := range map[string]string{
		`:2:16: error: events.sink: is not the name of one of sinks`: fmt.Sprintf(config, "out", "t"),
		`:2:26: error: events.topic: `:                               fmt.Sprintf(config, "k", "a/b"),
	} {
		s := &served{t: t, dir: t.TempDir()}
		s.write("c.yaml", text)
		if out := s.cli(exitConfig, "config", "check", s.file("c.yaml")); !strings.Contains(out, want) || strings.Count(out, "error: ") != 1 {
			t.Errorf("want %s, got:\n%s", want, out)
		}
	}
}
