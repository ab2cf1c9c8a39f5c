package core

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	long := func(n int) string { return strings.Repeat("x", n) }
	headers := func(n, size int) []Header {
		hs := make([]Header, n)
		for i := range hs {
			hs[i] = Header{Name: "h", Value: make([]byte, size-1)}
		}
		return hs
	}
	for _, test := range []struct {
		name  string
		edit  func(*Message)
		field string // empty: accepted
	}{
		{"plain", func(*Message) {}, ""},
		{"id at its length", func(m *Message) { m.ID = long(128) }, ""},
		{"id too long", func(m *Message) { m.ID = long(129) }, "id"},
		{"id of a source position", func(m *Message) { m.ID = "c1/orders.delayed/3@42~x=y+z" }, ""},
		{"id with a star", func(m *Message) { m.ID = "*" }, "id"},
		{"id with a question mark", func(m *Message) { m.ID = "a?" }, "id"},
		{"id with a newline", func(m *Message) { m.ID = "a\nb" }, "id"},
		{"id that is a path", func(m *Message) { m.ID = ".." }, "id"},
		{"id with a brace", func(m *Message) { m.ID = "a}b" }, "id"},
		{"no sink", func(m *Message) { m.Sink = "" }, "sink"},
		{"sink too long", func(m *Message) { m.Sink = long(65) }, "sink"},
		{"sink begins with a dash", func(m *Message) { m.Sink = "-x" }, "sink"},
		{"sink with a colon", func(m *Message) { m.Sink = "a:b" }, "sink"},
		{"sink with a brace", func(m *Message) { m.Sink = "a}b" }, "sink"},
		{"sink with a Cyrillic letter", func(m *Message) { m.Sink = "ordеrs" }, "sink"},
		{"no topic", func(m *Message) { m.Topic = "" }, "topic"},
		{"topic too long", func(m *Message) { m.Topic = long(256) }, "topic"},
		{"topic with a space", func(m *Message) { m.Topic = "a b" }, "topic"},
		{"topic with an override mark", func(m *Message) { m.Topic = "a\u202eb" }, "topic"},
		{"topic with a NUL", func(m *Message) { m.Topic = "a\x00" }, "topic"},
		{"priority below", func(m *Message) { m.Priority = -1 }, "priority"},
		{"priority above", func(m *Message) { m.Priority = 10 }, "priority"},
		{"body at its size", func(m *Message) { m.Body = make([]byte, 256<<10) }, ""},
		{"body too large", func(m *Message) { m.Body = make([]byte, 256<<10+1) }, "body"},
		{"key too long", func(m *Message) { m.Key = make([]byte, 1025) }, "key"},
		{"64 headers", func(m *Message) { m.Headers = headers(64, 128) }, ""},
		{"65 headers", func(m *Message) { m.Headers = headers(65, 1) }, "headers"},
		{"headers too large", func(m *Message) { m.Headers = headers(2, 4097) }, "headers"},
		{"header without a name", func(m *Message) { m.Headers = []Header{{}} }, "headers"},
		{"header name too long", func(m *Message) { m.Headers = []Header{{Name: long(256)}} }, "headers"},
		{"header name with a line break", func(m *Message) { m.Headers = []Header{{Name: "a\r\nb"}} }, "headers"},
		{"header value of any bytes", func(m *Message) { m.Headers = []Header{{Name: "a", Value: []byte("\r\n\x00\xff")}} }, ""},
		{"reserved header", func(m *Message) { m.Headers = []Header{{Name: "Delaybridge_ID"}} }, "headers"},
		{"delay below", func(m *Message) { m.Delay = -1 }, "delay"},
		{"delay at its length", func(m *Message) { m.Delay = 365 * 24 * time.Hour }, ""},
		{"delay too long", func(m *Message) { m.Delay = 365*24*time.Hour + 1 }, "delay"},
		{"both times", func(m *Message) { m.Delay, m.DeliverAt = 1, now }, "delay"},
		{"an hour ago", func(m *Message) { m.DeliverAt = now.Add(-time.Hour) }, ""},
		{"two days ago", func(m *Message) { m.DeliverAt = now.Add(-48 * time.Hour) }, "deliver_at"},
		{"year 9999", func(m *Message) { m.DeliverAt = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, "deliver_at"},
		{"ttl below", func(m *Message) { m.TTL = -1 }, "ttl"},
		{"ttl ends first", func(m *Message) { m.Delay, m.TTL = time.Minute, time.Minute }, "ttl"},
		{"ttl ends later", func(m *Message) { m.Delay, m.TTL = time.Minute, 2*time.Minute }, ""},
		{"both ends", func(m *Message) { m.TTL, m.ExpiresAt = 1, now.Add(time.Hour) }, "ttl"},
		{"expired already", func(m *Message) { m.ExpiresAt = now }, "expires_at"},
		{"expires before due", func(m *Message) { m.DeliverAt, m.ExpiresAt = now.Add(time.Hour), now.Add(time.Minute) }, "expires_at"},
		{"option with an empty name", func(m *Message) { m.Options = map[string]string{"": "x"} }, "options"},
		{"option value too long", func(m *Message) { m.Options = map[string]string{"a": long(1025)} }, "options.a"},
		{"too many options", func(m *Message) { m.Options = numbered(33) }, "options"},
		{"unknown retry option", func(m *Message) { m.Options = map[string]string{"retry.maximum": "1"} }, "options.retry.maximum"},
		{"retry option without a unit", func(m *Message) { m.Options = map[string]string{"retry.initial": "5"} }, "options.retry.initial"},
		{"retry option that is zero", func(m *Message) { m.Options = map[string]string{"retry.max_attempts": "0"} }, "options.retry.max_attempts"},
		{"retry option that is no number", func(m *Message) { m.Options = map[string]string{"retry.multiplier": "NaN"} }, "options.retry.multiplier"},
		{"retry option out of bounds", func(m *Message) { m.Options = map[string]string{"retry.jitter": "1.5"} }, "options.retry.jitter"},
		{"retry options", func(m *Message) {
			m.Options = map[string]string{"retry.initial": "1s", "retry.max": "1h", "retry.multiplier": "1.5", "retry.jitter": "0", "retry.max_attempts": "3"}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &Message{Sink: "orders", Topic: "t"}
			test.edit(m)
			err := Limits{}.Check(m, now)
			if test.field == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			invalid, ok := err.(*InvalidError)
			if !ok || invalid.Field != test.field {
				t.Fatalf("got %v, want a refusal of %s", err, test.field)
			}
			if len(invalid.Reason) > 256 || strings.ContainsAny(invalid.Reason, "\r\n\x00") {
				t.Errorf("reason %q echoes too much", invalid.Reason)
			}
		})
	}
}

func numbered(n int) map[string]string {
	options := make(map[string]string, n)
	for i := range n {
		options["o"+strings.Repeat("x", i)] = ""
	}
	return options
}

func TestRetryWait(t *testing.T) {
	policy := RetryPolicy{Initial: time.Second, Max: 10 * time.Second, Multiplier: 3, Jitter: 0.5}.withDefaults()
	for attempt, full := range map[int]time.Duration{1: time.Second, 2: 3 * time.Second, 3: 9 * time.Second, 4: 10 * time.Second, 10_000: 10 * time.Second} {
		least, most := time.Duration(1<<62), time.Duration(0)
		for range 2000 {
			wait := policy.wait(attempt)
			least, most = min(least, wait), max(most, wait)
		}
		if least < full/2 || most > full {
			t.Errorf("waits after attempt %d are %s to %s, want within %s to %s", attempt, least, most, full/2, full)
		}
		if spread := most - least; spread < full/4 {
			t.Errorf("waits after attempt %d spread by %s only", attempt, spread)
		}
	}
}

func TestIDsAreDistinctAndCarryTheirBucket(t *testing.T) {
	a, b, now := NewIDs(), NewIDs(), time.Now()
	seen := make(map[string]bool)
	for n := range 10_000 {
		for _, ids := range []*IDs{a, b} {
			id := ids.New(n%MaxBuckets, now)
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			seen[id] = true
			if bucket, ok := BucketOfID(id); !ok || bucket != n%MaxBuckets {
				t.Fatalf("%s carries bucket %d (%v), want %d", id, bucket, ok, n%MaxBuckets)
			}
			if err := CheckID(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id := range maps.Keys(map[string]bool{"": true, "short": true, strings.Repeat("z", 23): true, strings.Repeat("A", 23): true}) {
		if _, ok := BucketOfID(id); ok {
			t.Errorf("%q passes for a generated id", id)
		}
	}
}
