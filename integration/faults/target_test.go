//go:build unix

package main

import (
	"encoding/json"
	"testing"
	"time"
)

func landed(t *testing.T, l landing) (entry, *run) {
	t.Helper()
	r := &run{ledger: &ledger{}}
	r.land(l)
	if len(r.ledger.entries) != 1 {
		t.Fatalf("%d entries", len(r.ledger.entries))
	}
	return r.ledger.entries[0], r
}

// TestLanding: what a broker shows is the same entry that a printed line is.
func TestLanding(t *testing.T) {
	name, id, attempt, due := "m", "i", "2", "2026-01-02T03:04:05.000Z"
	sent := message{Topic: "orders", Headers: []header{{headerName, &name}}, Body: "b"}
	l := landing{topic: "orders", body: "b", stored: at(1500),
		headers: []header{{headerName, &name}, {"delaybridge-id", &id}, {"delaybridge-attempt", &attempt}, {"delaybridge-deliver-at", &due}}}
	e, r := landed(t, l)
	if e.Name != "m" || e.ID != "i" || e.Attempt != 2 || !e.Due.Equal(epoch) || !e.Call.Equal(at(1500)) || e.Content != sent.content() || len(r.own) > 0 {
		t.Errorf("%+v, findings %v", e, r.own)
	}
	l.stored = time.Time{}
	if e, _ := landed(t, l); !e.Call.Equal(epoch) {
		t.Errorf("a broker that tells no time: stored from %s on, want from when it was due", e.Call)
	}
	hop := "2"
	l.headers = append(l.headers, header{"delaybridge-hop", &hop})
	if e, _ := landed(t, l); e.Name != "m~2" || e.Content != sent.content() {
		t.Errorf("published again: %+v", e)
	}
	late := time.Now().Add(time.Hour).Format(time.RFC3339)
	l.headers[3].Value = &late
	if e, _ := landed(t, l); len(testLaws().early(&account{arrivals: []entry{e}})) != 1 {
		t.Errorf("an hour early is not found: %+v", e)
	}
	l.headers = l.headers[:1]
	if _, r := landed(t, l); len(r.own) != 1 || r.own[0].law != "L3" {
		t.Errorf("without the headers of delivery: %v", r.own)
	}
}

// TestBytesGoInBase64: JSON has no form for bytes that are no text.
func TestBytesGoInBase64(t *testing.T) {
	text, bytes := "te\u00fcxt", "\xff\x00"
	for _, test := range []struct {
		message message
		want    string
	}{
		{message{Topic: "t", Key: &text, Headers: []header{{"n", &text}, {"null", nil}}, Body: text, Delay: "1s"},
			`{"topic":"t","headers":[{"name":"n","value":"teüxt"},{"name":"null","value":null}],"delay":"1s","key":"teüxt","body":"teüxt"}`},
		{message{Topic: "t", Key: &bytes, Headers: []header{{"n", &bytes}}, Body: bytes, Delay: "1s"},
			`{"topic":"t","headers":[{"name":"n","value_base64":"/wA="}],"delay":"1s","key_base64":"/wA=","body_base64":"/wA="}`},
	} {
		got, err := json.Marshal(test.message)
		if err != nil || string(got) != test.want {
			t.Errorf("%s, %v, want %s", got, err, test.want)
		}
	}
}
