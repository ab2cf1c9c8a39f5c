package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/delaybridge/delaybridge/core"
)

// nilable is bytes that may be nil, which is not the same as empty.
func nilable() *rapid.Generator[[]byte] {
	return rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
}

func drawMessage(t *rapid.T) *core.Message {
	m := &core.Message{Topic: rapid.StringN(1, 300, -1).Draw(t, "topic"), Priority: rapid.IntRange(0, 9).Draw(t, "priority"),
		Key: nilable().Draw(t, "key"), Body: nilable().Draw(t, "body")}
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		m.Headers = append(m.Headers, core.Header{Name: rapid.String().Draw(t, "name"), Value: nilable().Draw(t, "value")})
	}
	if options := rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "options"); len(options) > 0 {
		m.Options = options
	}
	return m
}

// record is what park.lua makes of a payload.
func record(m *core.Message, seq uint64) string {
	b := appendPayload(nil, m)
	kind := byte(0)
	if !m.ExpiresAt.IsZero() {
		kind |= kindExpires
		ms := m.ExpiresAt.UnixMilli()
		b = append(b, byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms))
	}
	if m.Generated {
		kind |= kindGenerated
	}
	return string(append(b, byte(seq>>32), byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq), kind))
}

func TestRecordKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMessage(t)
		want.Generated = rapid.Bool().Draw(t, "generated")
		if rapid.Bool().Draw(t, "expires") {
			want.ExpiresAt = time.UnixMilli(rapid.Int64Range(1, 1<<47).Draw(t, "expiry"))
		}
		stored := record(want, rapid.Uint64().Draw(t, "seq"))
		got := &core.Message{}
		if err := decodeRecord(stored, recordFormat, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("record changed the message (-want +got):\n%s", diff)
		}
		head := &core.Message{}
		size, err := peeked{stored[:min(len(stored), 1<<20)], stored[max(0, len(stored)-maxTail):], len(stored)}.decode(recordFormat, head)
		if err != nil || size != len(want.Body) {
			t.Fatalf("peek: body of %d bytes (%v), want %d", size, err, len(want.Body))
		}
		want.Body = nil
		if diff := cmp.Diff(want, head); diff != "" {
			t.Fatalf("peek changed the message (-want +got):\n%s", diff)
		}
	})
}

func TestEqualContentMakesEqualPayloads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawMessage(t), drawMessage(t)
		same := cmp.Equal(a, b)
		if got := bytes.Equal(appendPayload(nil, a), appendPayload(nil, b)); got != same {
			t.Fatalf("payloads equal: %v, messages equal: %v", got, same)
		}
		again := *a
		if !bytes.Equal(appendPayload(nil, a), appendPayload(nil, &again)) {
			t.Fatal("the same message makes two payloads")
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(record(&core.Message{Topic: "t"}, 1))
	f.Add(record(&core.Message{Topic: "t", Key: []byte{}, Body: []byte("body"), ExpiresAt: time.UnixMilli(1), Generated: true,
		Headers: []core.Header{{Name: "a"}, {Name: "a", Value: []byte{}}}, Options: map[string]string{"x": "y"}}, 1<<39))
	f.Add("")
	f.Fuzz(func(t *testing.T, stored string) {
		m := &core.Message{}
		if err := decodeRecord(stored, recordFormat, m); err != nil && !errors.Is(err, errRecord) && !errors.Is(err, errNewer) {
			t.Errorf("error %v is neither errRecord nor errNewer", err)
		}
		if len(m.Body)+len(m.Key)+len(m.Topic) > len(stored) {
			t.Error("more came out than went in")
		}
	})
}

func TestFailureKeepsEverything(t *testing.T) {
	due := time.UnixMilli(1_800_000_000_000)
	for _, want := range []failure{
		{attempts: 3, deliverAt: due, reason: "unknown", text: "broken\npipe: 1 2 3"},
		{attempts: 0, deliverAt: due, reason: "topic_blocked", text: ""},
	} {
		if got := parseFailure(want.String(), time.Time{}); got != want {
			t.Errorf("%+v became %+v", want, got)
		}
	}
	for _, damaged := range []string{"", "x", "1 2", "a b c\n", "1 b c"} {
		if got := parseFailure(damaged, due); got != (failure{deliverAt: due}) {
			t.Errorf("%q was read as %+v", damaged, got)
		}
	}
}

func TestFaultClasses(t *testing.T) {
	for _, test := range []struct {
		err  error
		want error
	}{
		{errors.New("OOM command not allowed when used memory > 'maxmemory'."), core.ErrFull},
		{errors.New("MISCONF Redis is configured to save RDB snapshots"), core.ErrFull},
		{errors.New("LOADING Redis is loading the dataset in memory"), core.ErrUnavailable},
		{errors.New("READONLY You can't write against a read only replica."), core.ErrUnavailable},
		{errors.New("NOPERM this user has no permissions"), core.ErrUnavailable},
		{errors.New("CLUSTERDOWN Hash slot not served"), core.ErrUnavailable},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, core.ErrUnavailable},
		{fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), core.ErrUnavailable},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, core.ErrUnknown},
		{errors.New("EOF"), core.ErrUnknown},
		{errors.New("ERR Error running script"), core.ErrUnknown},
	} {
		if got := fault("park", test.err); !errors.Is(got, test.want) || !errors.Is(got, test.err) {
			t.Errorf("%v is %v, want %v", test.err, got, test.want)
		}
	}
	if fault("park", nil) != nil {
		t.Error("no error became one")
	}
}
