//go:build unix

package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// TestLedgerFindsFaults: the proofs are worth what their comparison is.
func TestLedgerFindsFaults(t *testing.T) {
	due := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	want := accepted{deliverAt: due, entry: entry{ID: "m", Key: []byte("k"), Body: []byte("body")},
		headers: []core.Header{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{0xff}}}}
	tests := []struct {
		name  string
		spoil func(*arrival)
		fault string // its beginning
	}{
		{"nothing", func(*arrival) {}, ""},
		{"read early", func(a *arrival) { a.at = due.Add(-time.Millisecond) }, "due at"},
		{"stored early", func(a *arrival) { a.stored = due.Add(-time.Millisecond) }, "due at"},
		{"another due time", func(a *arrival) { a.headers[4].Value = []byte("2030-01-02T03:04:05.007Z") }, "header delaybridge-deliver-at"},
		{"body cut", func(a *arrival) { a.body = a.body[1:] }, "body"},
		{"another key", func(a *arrival) { a.key = nil }, "key"},
		{"no attempt", func(a *arrival) { a.headers[3].Value = nil }, "attempt"},
		{"header's value", func(a *arrival) { a.headers[1].Value = []byte{0xfe} }, "headers"},
		{"order of headers", func(a *arrival) { a.headers[0], a.headers[1] = a.headers[1], a.headers[0] }, "headers"},
		{"one header more", func(a *arrival) { a.headers = append(a.headers, core.Header{Name: "c"}) }, "headers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &core.Message{ID: "m", Attempt: 1, DeliverAt: due, Headers: want.headers}
			got := arrival{at: due, stored: due, key: want.Key, body: want.Body, headers: m.DeliveredHeaders()}
			test.spoil(&got)
			fault := newLedger(&target{}).compare(want, got)
			if !strings.HasPrefix(fault, test.fault) || (fault == "") != (test.fault == "") {
				t.Errorf("found %q, want %q", fault, test.fault)
			}
		})
	}
}
