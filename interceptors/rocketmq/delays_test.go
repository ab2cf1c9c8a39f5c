//go:build unix

package rocketmqsource

import (
	"strconv"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestDelaysOfTheBroker(t *testing.T) { checkDelays(t, newRig(t), true) }

// checkDelays sends messages that the broker holds back itself, and such that it
// does not: no delay is honoured twice, and none is lost. timers: the broker
// knows TIMER_ properties.
func checkDelays(t *testing.T, r *rig, timers bool) {
	topic := r.topic("-delays", 1)
	// The broker's level 1 is a second: were it honoured twice, it would show in
	// what is parked. The hour is what only we can have to wait for.
	hour := time.Now().Add(time.Hour).Truncate(time.Second)
	soon := time.Now().Add(4 * time.Second).UnixMilli() // the broker holds back what is still to come
	r.send(topic, 0, "at", props("TIMER_DELIVER_MS", strconv.FormatInt(soon, 10)))
	r.send(topic, 0, "level", props("DELAY", "1", "a", "1"))
	r.send(topic, 0, "level and ours", props("DELAY", "1", "delaybridge-delay", "1h"))
	r.send(topic, 0, "ours", props("delaybridge-delay", "2h"))
	r.send(topic, 0, "no level", props("DELAY", "0", "delaybridge-delay", "3h"))
	r.send(topic, 0, "ms", props("TIMER_DELAY_MS", "2000"))
	r.send(topic, 0, "s", props("TIMER_DELAY_SEC", "2"))
	r.sendBatch(topic, 0, one{"batch", props("DELAY", "18")}, one{"batch at", props("TIMER_DELIVER_MS", strconv.FormatInt(hour.UnixMilli(), 10))})
	r.run(r.source([]string{topic}, nil))
	wants := map[string]core.Message{
		"level": {}, "level and ours": {Delay: time.Hour}, "ours": {Delay: 2 * time.Hour}, "no level": {Delay: 3 * time.Hour},
		"at": {}, "ms": {}, "s": {}, "batch": {Delay: 2 * time.Hour}, "batch at": {DeliverAt: hour},
	}
	if !timers { // then they are ours to honour
		wants["at"] = core.Message{DeliverAt: time.UnixMilli(soon)}
		wants["ms"], wants["s"] = core.Message{Delay: 2 * time.Second}, core.Message{Delay: 2 * time.Second}
	}
	for _, m := range r.store.Await(t, len(wants)) {
		want := wants[string(m.Body)]
		if m.Delay != want.Delay || !m.DeliverAt.Equal(want.DeliverAt) {
			t.Errorf("%s: due in %s at %s, want in %s at %s", m.Body, m.Delay, m.DeliverAt, want.Delay, want.DeliverAt)
		}
		for _, h := range m.Headers {
			if h.Name != "a" {
				t.Errorf("%s: has the header %s", m.Body, h.Name)
			}
		}
	}
	waits := map[string]bool{"level": true, "level and ours": true, "at": timers, "ms": timers, "s": timers}
	for _, s := range r.read(topic, len(wants)) {
		if _, waited := s.property["REAL_TOPIC"]; waited != waits[string(s.body)] {
			t.Errorf("%s: the broker has left %q", s.body, s.property)
		}
	}
}
