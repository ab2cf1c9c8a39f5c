//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// consoleSinks is what most rows deliver to: see printed.
const consoleSinks = `out: {type: console, timeout: 3s, config: {format: json}}`

// targets is what the messages of a run go to where it is not the console sink.
// Of the brokers there is one, which the row's sink has started.
type targets struct {
	out  string // the section sinks of the configuration
	more string // further sections
	// old is a bridge of an earlier version, oldCommit the version.
	old, oldCommit string
	refuses        string // a file: while it is there the sink refuses messages for good

	kafka  *kafkaTarget
	rabbit *rabbitTarget
	// retries is a consumer of RabbitMQ that publishes again; nil: none does.
	retries *retries
	rocket  *rocketTarget
	plugin  *pluginTarget
}

// landing is a message as a consumer of a broker has it. A broker does not tell
// which bridge sent it.
type landing struct {
	topic, key string
	headers    []header // with those of delivery
	body       string
	stored     time.Time // by the broker's clock; zero if it does not say
}

// land notes a message that a broker has.
func (r *run) land(l landing) {
	p := printed{Time: l.stored, Topic: l.topic, Key: l.key, Headers: l.headers, Body: l.body}
	hop := 0
	for _, h := range l.headers {
		if h.Value == nil {
			continue
		}
		switch h.Name {
		case core.HeaderID:
			p.ID = *h.Value
		case core.HeaderAttempt:
			p.Attempt, _ = strconv.Atoi(*h.Value) // 0 is no attempt, and found as such
		case core.HeaderDeliverAt:
			p.DeliverAt, _ = time.Parse(time.RFC3339, *h.Value)
		case core.HeaderHop:
			hop, _ = strconv.Atoi(*h.Value)
		}
	}
	read := time.Now()
	if p.Time.IsZero() { // stored at some time since it was due
		p.Time = p.DeliverAt
		if read.Before(p.Time) {
			p.Time = read
		}
	}
	e := p.entry("", read)
	e.Name = hopName(e.Name, hop)
	if p.ID == "" || p.Attempt == 0 || p.DeliverAt.IsZero() {
		r.find("L3", "%s arrived without the headers of delivery: %q", e.Name, fmt.Sprint(l.headers))
	}
	r.ledger.note(e)
}

// sorted puts the headers of a broker in order that keeps none.
func sorted(headers []header) []header {
	slices.SortFunc(headers, func(a, b header) int { return strings.Compare(a.Name, b.Name) })
	return headers
}

// plain gives a message headers that every broker carries: each name once, and
// in order of the names.
func (r *run) plain(p *plan) {
	for n := range p.message.Headers {
		if n > 1 {
			p.message.Headers[n].Name += strconv.Itoa(n)
		}
	}
}

// shuffled is troubles in the order of the seed, each done once.
func (r *run) shuffled(troubles ...func()) {
	r.dice.Shuffle(len(troubles), func(a, b int) { troubles[a], troubles[b] = troubles[b], troubles[a] })
	for _, trouble := range troubles {
		trouble()
		time.Sleep(r.between(time.Second, 2*time.Second))
	}
}

// heldFor counts the waiting messages whose last error holds a text, of the first
// 500 that wait for another attempt.
func (r *run) heldFor(b *bridge, text string) int {
	status, answer, err := r.request(b, http.MethodGet, "/v1/messages?state=retrying&limit=500", nil)
	if err != nil || status != http.StatusOK {
		return 0
	}
	var page struct {
		Messages []struct {
			Error string `json:"error"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(answer, &page); err != nil {
		r.harm(fmt.Errorf("list what waits: %w", err))
	}
	n := 0
	for _, m := range page.Messages {
		if strings.Contains(m.Error, text) {
			n++
		}
	}
	return n
}

// watchHeld lets some time pass, and counts as reached how many messages were at
// most seen to wait for a reason.
func (r *run) watchHeld(d time.Duration, state, text string) {
	r.during(d, func() {
		time.Sleep(200 * time.Millisecond)
		r.seen[state] = max(r.seen[state], r.heldFor(r.bridges[0], text))
	})
}

// pausedFor is why a bridge holds the sink back; empty if it does not.
func (r *run) pausedFor(b *bridge, sink string) string {
	_, answer, err := r.request(b, http.MethodGet, "/v1/stats", nil)
	if err != nil {
		return ""
	}
	var stats struct {
		Sinks []struct {
			Sink   string `json:"sink"`
			Paused string `json:"paused"`
		} `json:"sinks"`
	}
	_ = json.Unmarshal(answer, &stats) // without an answer it is not known to be paused
	for _, s := range stats.Sinks {
		if s.Sink == sink {
			return s.Paused
		}
	}
	return ""
}

const inTime = time.Second

// checkInTime finds whether a sink's trouble has reached messages that it is not
// about: those that chosen tells, due in a time.
func (r *run) checkInTime(from, to time.Time, chosen func(entry) bool) {
	late, all := r.ledger.late(inTime, func(e entry) bool { return chosen(e) && e.Due.After(from) && e.Due.Before(to) })
	if all == 0 || float64(late) > mayBeLate*float64(all) {
		r.find("L7", "%d of %d neighbours were more than %s late", late, all, inTime)
	}
}
