//go:build unix

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// fleet is two instances with one configuration.
type fleet struct {
	t         *testing.T
	config    string
	path      string // of what their console sinks have written
	instances [2]*instance
	posts     int
}

// TestBadRecordStopsItsSourceOnly: with on_bad_record: stop a record that can't be
// parked stops its source, in all instances and after a restart, while the other
// sources, the listener and the sink go on.
func TestBadRecordStopsItsSourceOnly(t *testing.T) {
	t.Parallel()
	origins := map[string]*origin{"kafka": kafkaOrigin(t), "rabbit": rabbitOrigin(t), "rocket": rocketOrigin(t)}
	configured := make(map[string]sourceConfig)
	for name, o := range origins {
		c := maps.Clone(o.source.Config)
		c["sink"], c["topic"] = "out", "delivered"
		configured[name] = sourceConfig{o.source.Type, c}
	}
	out := output(t)
	f := &fleet{t: t, path: out.Name()}
	f.config = withSources(t, fmt.Sprintf(`{"store": {"redis": {"url": %q}}, "http": {"listen": "127.0.0.1:0"},
		"sinks": {"out": {"type": "console", "config": {"format": "json"}}}}`, servers.Redis(t, servers.RedisOptions{}).URL()), configured)
	for n := range f.instances {
		f.instances[n] = serve(t, f.config, out)
	}
	sources, good := []string{"kafka", "rabbit", "rocket"}, 0
	for stopped := range len(sources) + 1 {
		for n, name := range sources {
			if n >= stopped {
				good++
				f.produce(origins[name], good, time.Now().Add(100*time.Millisecond))
				f.awaitDelivered(name, good)
			}
		}
		f.awaitPosted()
		if stopped < len(sources) {
			f.produce(origins[sources[stopped]], 0, time.Now().AddDate(0, 0, -7))
			f.awaitStopped(sources[stopped])
		}
	}
	f.instances[0].stop()
	f.instances[0] = serve(t, f.config, out)
	for _, name := range sources {
		f.awaitStopped(name)
	}
	f.awaitPosted()
	for _, i := range f.instances {
		i.stop()
	}
}

func (f *fleet) produce(o *origin, number int, due time.Time) {
	f.t.Helper()
	m := accepted{deliverAt: due, headers: []core.Header{{Name: numberHeader, Value: fmt.Append(nil, number)}}, entry: entry{Body: []byte("x"), Key: []byte("k")}}
	if err := o.produce([]accepted{m}); err != nil {
		f.t.Fatal(err)
	}
}

// awaitDelivered: what was produced last to a source comes out.
func (f *fleet) awaitDelivered(source string, number int) {
	f.t.Helper()
	want := fmt.Sprintf(`{"name":"number","value":"%d"}`, number)
	poll.Until(f.t, plainLimit, fmt.Sprintf("record %d of %s is delivered", number, source), func() bool { return f.printed(want) })
}

func (f *fleet) printed(want string) bool {
	for id, all := range deliveries(f.t, f.path) {
		if id == want || strings.Contains(string(all[0].Headers), want) {
			return true
		}
	}
	return false
}

// awaitPosted: each instance accepts by HTTP, and what it accepts is delivered.
func (f *fleet) awaitPosted() {
	f.t.Helper()
	for _, i := range f.instances {
		f.posts++
		id := fmt.Sprintf("posted-%d", f.posts)
		poll.Until(f.t, answersIn, "it is accepted", func() bool { return i.post(id, 0) })
		poll.Until(f.t, plainLimit, id+" is delivered", func() bool { return f.printed(id) })
	}
}

// awaitStopped: every instance says so, in its stats, its log and its readiness.
func (f *fleet) awaitStopped(source string) {
	f.t.Helper()
	for _, i := range f.instances {
		var trouble string
		poll.Until(f.t, plainLimit, source+" has stopped", func() bool {
			var answer struct {
				Instances []struct {
					Self    bool
					Sources []struct{ Source, State, Trouble string }
				}
			}
			if i.get("/v1/instances", &answer) != nil {
				return false
			}
			for _, one := range answer.Instances {
				for _, s := range one.Sources {
					if one.Self && s.Source == source && s.State == "stopped" {
						trouble = s.Trouble
					}
				}
			}
			return trouble != ""
		})
		var ready struct {
			Ready   bool
			Sources map[string]string
		}
		poll.Until(f.t, answersIn, "it is ready", func() bool { return i.get("/readyz", &ready) == nil })
		if !ready.Ready || ready.Sources[source] != "stopped" {
			f.t.Errorf("readiness is %+v", ready)
		}
		if !strings.Contains(trouble, "the record at ") || !strings.Contains(trouble, "deliver_at: is more than") || strings.Contains(trouble, `message id ""`) {
			f.t.Errorf("%s has stopped for %q", source, trouble)
		}
		if !strings.Contains(i.Logs.String(), "source has stopped") {
			f.t.Errorf("the log does not tell that %s has stopped:\n%s", source, &i.Logs)
		}
	}
}
