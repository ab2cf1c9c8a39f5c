//go:build unix

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// passage is messages on their way from one broker through two instances, which
// share the work and are killed again and again, to another broker.
type passage struct {
	from  *origin
	to    *target
	n     int
	kills int
	over  time.Duration // that producing and killing takes

	config  string
	out     *os.File
	bridges [2]*instance
}

const (
	passageBatch  = 100
	minTag        = time.Second // the earliest time that messages are tagged with, from when they are written
	maxTag        = 10 * time.Second
	arrivesWithin = 5 * time.Minute // after the last was written: the machine may be busy
)

// TestSourceUnderKills: what producers tag in one broker comes out of another:
// at least once, parked once, not early, byte for byte, whichever instance dies.
func TestSourceUnderKills(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		from func(*testing.T) *origin
		to   func(*testing.T) *target
		n    int
		kill int
		over time.Duration
	}{
		{"kafka to rabbitmq", kafkaOrigin, rabbitTarget, 50_000, 10, 30 * time.Second},
		{"rabbitmq to kafka", rabbitOrigin, func(t *testing.T) *target { return kafkaTarget(t, servers.Kafka4) }, 2_000, 3, 10 * time.Second},
		{"rocketmq to kafka", rocketOrigin, func(t *testing.T) *target { return kafkaTarget(t, servers.Kafka4) }, 2_000, 3, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := &passage{from: test.from(t), to: test.to(t), n: test.n, kills: test.kill, over: test.over}
			p.run(t)
		})
	}
}

func (p *passage) run(t *testing.T) {
	t.Helper()
	p.to.partings = slices.Concat(p.to.partings, p.from.partings)
	p.config, p.out = p.configuration(t), output(t)
	arrivals := p.to.consume(t)
	for n := range p.bridges {
		p.bridges[n] = serve(t, p.config, p.out)
	}
	messages, written := p.messages(), make(chan error, 1)
	go func() { written <- p.produce(messages) }()
	p.kill(t)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	l := newLedger(p.to)
	l.idHeader = numberHeader
	for _, m := range messages {
		l.accepted[number(m)] = m
	}
	l.gather(t, arrivals, arrivesWithin)
	p.check(t, l, arrivals)
}

// configuration has buckets move on quickly from an instance that was killed.
func (p *passage) configuration(t *testing.T) string {
	t.Helper()
	i := sourceConfig{p.from.source.Type, maps.Clone(p.from.source.Config)}
	i.Config["sink"], i.Config["topic"] = "broker", p.to.topic
	var c map[string]any
	if err := json.Unmarshal([]byte(bridgeConfig(t, map[string]*target{"broker": p.to})), &c); err != nil {
		t.Fatal(err)
	}
	c["store"].(map[string]any)["lease"] = "2s"
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return withSources(t, string(text), map[string]sourceConfig{sourceName: i})
}

func (p *passage) messages() []accepted {
	const keys = 200
	all := make([]accepted, p.n)
	for n := range all {
		headers := append([]core.Header{{Name: numberHeader, Value: fmt.Append(nil, n)}}, p.to.someHeaders()...)
		all[n] = accepted{headers: headers, unsure: true, entry: entry{Key: p.to.key(rand.IntN(keys)), Body: someBytes(400)}}
	}
	return all
}

// number is what tells m apart, which is its first header.
func number(m accepted) string { return string(m.headers[0].Value) }

// produce writes messages at an even pace. When each is due is chosen just
// before it is written.
func (p *passage) produce(messages []accepted) error {
	began, written := time.Now(), 0
	for batch := range slices.Chunk(messages, passageBatch) {
		time.Sleep(time.Until(began.Add(p.over * time.Duration(written) / time.Duration(p.n))))
		for n := range batch {
			batch[n].deliverAt = time.Now().Add(minTag + rand.N(maxTag-minTag)).Truncate(time.Millisecond)
		}
		if err := p.from.produce(batch); err != nil {
			return err
		}
		written += len(batch)
	}
	return nil
}

// kill ends one of the instances as kill -9 does, at moments that are random but
// spread over the time of producing, and starts it again.
func (p *passage) kill(t *testing.T) {
	t.Helper()
	began, each := time.Now(), p.over/time.Duration(p.kills)
	for n := range p.kills {
		time.Sleep(time.Until(began.Add(each*time.Duration(n) + rand.N(each))))
		victim := rand.IntN(len(p.bridges))
		p.bridges[victim].Kill()
		p.bridges[victim] = serve(t, p.config, p.out)
	}
	t.Logf("%d kills in %s", p.kills, time.Since(began).Round(time.Millisecond))
}

func (p *passage) check(t *testing.T, l *ledger, arrivals <-chan arrival) {
	t.Helper()
	poll.Until(t, recoverIn, "nothing is parked any more", func() bool {
		s := p.bridges[0].stats("broker")
		if s.Dead != 0 {
			t.Fatalf("%d messages are dead", s.Dead)
		}
		return s.Scheduled == 0 && s.Due == 0
	})
	// What a killed instance has parked and not acknowledged, another reads again.
	poll.Until(t, recoverIn, "all is acknowledged in the origin", func() bool { return p.left(t) == 0 })
	for _, b := range p.bridges {
		b.stop()
	}
	l.gatherRest(t, arrivals)
	late := l.lateness("")
	parkedLate := l.resolveLate()
	l.check(t)
	p.checkIDs(t, l)
	repeats := l.checkRepeats(t) // parked twice, a message would come twice as attempt 1
	if left := p.left(t); left != 0 {
		t.Errorf("%d messages are not acknowledged in the origin any more", left)
		for _, b := range p.bridges {
			t.Logf("log of an instance:\n%s", &b.Logs)
		}
	}
	t.Logf("%d messages, %d parked when their time had passed, %d repeats; lateness at the consumer, kills included: p50 %s, p99 %s, max %s",
		len(l.accepted), parkedLate, repeats, quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1))
}

// left is what the origin tells of that, as soon as it answers.
func (p *passage) left(t *testing.T) (left int64) {
	t.Helper()
	poll.Until(t, answersIn, "the origin tells what it has left", func() bool {
		var err error
		if left, err = p.from.left(); err != nil {
			t.Logf("ask what is left: %v", err)
		}
		return err == nil
	})
	return left
}

// checkIDs: where the position gives the ID, it is that one.
func (p *passage) checkIDs(t *testing.T, l *ledger) {
	t.Helper()
	for key, all := range l.arrived {
		want := l.accepted[key].ID
		for _, a := range all {
			if id := string(a.header(core.HeaderID)); !strings.HasPrefix(id, want) {
				t.Fatalf("the ID of message %s is %q, want %q", key, id, want)
			}
		}
	}
}
