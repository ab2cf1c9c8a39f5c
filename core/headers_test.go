package core

import (
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"
)

func TestDeliveredHeaders(t *testing.T) {
	own := []Header{{"a", []byte("1")}, {"a", nil}, {"b", []byte{0xff, 0}}}
	m := &Message{ID: "order-42", Attempt: 12, Headers: own,
		DeliverAt: time.Date(2026, 11, 21, 13, 4, 5, 60_000_000, time.FixedZone("", 3600))}
	got := m.DeliveredHeaders()
	want := append(slices.Clone(own), Header{"delaybridge-id", []byte("order-42")},
		Header{"delaybridge-attempt", []byte("12")}, Header{"delaybridge-deliver-at", []byte("2026-11-21T12:04:05.060Z")})
	if !slices.EqualFunc(got, want, func(a, b Header) bool {
		return a.Name == b.Name && string(a.Value) == string(b.Value) && (a.Value == nil) == (b.Value == nil)
	}) {
		t.Errorf("headers are %q, want %q", got, want)
	}
	// Nobody who appends to one value reaches the next.
	_ = append(got[3].Value, "XXX"...)
	if string(got[4].Value) != "12" || len(m.Headers) != 3 {
		t.Errorf("an append to the id changed the attempt to %q", got[4].Value)
	}
}

// TestAppendAdded: sinks that make up a whole batch send what the others send.
func TestAppendAdded(t *testing.T) {
	first := &Message{ID: "a", Attempt: 1, DeliverAt: time.UnixMilli(1)}
	second := &Message{ID: "bb", Attempt: math.MaxInt64, DeliverAt: time.UnixMilli(1)}
	values := make([]byte, 0, first.AddedBytes()+second.AddedBytes())
	start := unsafe.SliceData(values)
	var added [2][AddedHeaders]Header
	for n, m := range []*Message{first, second} {
		added[n], values = m.AppendAdded(values)
	}
	if unsafe.SliceData(values) != start {
		t.Error("AddedBytes is less than what was appended")
	}
	for n, m := range []*Message{first, second} {
		if got, want := added[n][:], m.DeliveredHeaders(); !slices.EqualFunc(got, want, func(a, b Header) bool {
			return a.Name == b.Name && string(a.Value) == string(b.Value) && cap(a.Value) == len(a.Value)
		}) {
			t.Errorf("message %d has %q, want %q", n, got, want)
		}
	}
}

func TestTimesInHeadersAreAsTheTimePackageWritesThem(t *testing.T) {
	for at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2100; at = at.Add(97*24*time.Hour + 13*time.Hour + 7*time.Minute + 5*time.Second + 123*time.Millisecond) {
		if got, want := string(appendTime(nil, at)), at.Format(TimeFormat); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}

func BenchmarkDeliveredHeaders(b *testing.B) {
	m := &Message{ID: "0606gvq68394ruftfvho002", Attempt: 1, DeliverAt: time.Now(), Headers: []Header{{"a", []byte("1")}, {"b", []byte("2")}}}
	b.ReportAllocs()
	for b.Loop() {
		m.DeliveredHeaders()
	}
}
