//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// poisonRows are messages that an encoder could break on.
func poisonRows() []*row {
	return []*row{{number: 36, name: "poison", level: "fsync", bridges: 2, set: safeRedis, sink: kafkaForAllSizes, shape: (*run).poison, nemesis: (*run).watchNeighbours, verify: (*run).countPoison,
		fault:    "an eighth of the load is bytes that are no text, zeros, bodies up to 2 MiB, keys and header names that are long, binary or empty",
		expected: "refused at accept, delivered exactly or dead with a reason; neighbours in time", drainIn: 20 * time.Second,
		needs: map[string]int{"poison refused": 10, "poison delivered": 30}}}
}

// kafkaForAllSizes has the listeners let through what only the sink can judge.
func kafkaForAllSizes(r *run) string {
	r.more = "limits: {max_body: 4MiB}\n"
	return kafkaSinks(r)
}

// poison makes some messages such that a careless encoder fails on them. They may
// be refused, and may die, but not pass changed.
func (r *run) poison(p *plan) {
	if p.dice.IntN(8) != 0 {
		return
	}
	p.mortal, p.once, p.generated, p.message.ID = true, true, false, p.name
	m, empty := &p.message, ""
	add := func(name, value string) { m.Headers = append(m.Headers, header{name, &value}) }
	choices := []func(){
		func() { m.Body = "\xff\xfe\x80\xc0\x00\xed\xa0\x80" },
		func() { m.Body = strings.Repeat("\x00", 1+p.dice.IntN(4096)) },
		func() { m.Body = strings.Repeat("\xff", 1<<20) },
		func() { m.Body = strings.Repeat("x", 2<<20) },
		func() { m.Body = "\x1b[2J\r\n\t\u202e\u0000\ufeff" },
		func() { m.Body, m.Key = "", &empty; add("empty", "") },
		func() { add(strings.Repeat("n", 255), "long") },
		func() { add(strings.Repeat("n", 256), "longer") },
		func() { add("binary", "\x00\xff\r\n\x80") },
		func() { add("na\u00efve \u2603", "no token") },
		func() { add("", "no name") },
		func() { key := strings.Repeat("\xff\x00", 512); m.Key = &key },
		func() { key := strings.Repeat("k", 1025); m.Key = &key },
		func() { m.Topic = "no/such topic\x00" },
		func() { m.Topic = strings.Repeat("t", 300) },
		func() {
			for range 62 {
				add("many", "same name")
			}
		},
	}
	choices[p.dice.IntN(len(choices))]()
}

// watchNeighbours finds whether the rest, and what of the poison passes, is in
// time.
func (r *run) watchNeighbours() {
	over, from := r.strikeClean("poison"), time.Now()
	time.Sleep(span)
	over()
	r.checkInTime(from, time.Now().Add(-inTime), func(entry) bool { return true })
}

func (r *run) countPoison() {
	for _, a := range r.ledger.accounts() {
		switch {
		case !a.mortal():
		case len(a.arrivals) > 0:
			r.reached("poison delivered")
		case a.any(accepting, refused):
			r.reached("poison refused")
		}
	}
}

// MarshalJSON gives bytes that are no text in base64.
func (m message) MarshalJSON() ([]byte, error) {
	type usual message
	w := struct {
		usual
		Key        *string `json:"key,omitempty"`
		KeyBase64  *[]byte `json:"key_base64,omitempty"`
		Body       *string `json:"body,omitempty"`
		BodyBase64 *[]byte `json:"body_base64,omitempty"`
	}{usual: usual(m), Key: m.Key, Body: &m.Body}
	if m.Key != nil && !isText(*m.Key) {
		key := []byte(*m.Key)
		w.Key, w.KeyBase64 = nil, &key
	}
	if !isText(m.Body) {
		body := []byte(m.Body)
		w.Body, w.BodyBase64 = nil, &body
	}
	return json.Marshal(w)
}

// MarshalJSON gives bytes that are no text in base64.
func (h header) MarshalJSON() ([]byte, error) {
	if h.Value == nil || isText(*h.Value) {
		type usual header
		return json.Marshal(usual(h))
	}
	return json.Marshal(struct {
		Name  string `json:"name"`
		Value []byte `json:"value_base64"`
	}{h.Name, []byte(*h.Value)})
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\r\n") }
