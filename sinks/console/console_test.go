package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

func TestHumanIsOneHarmlessLine(t *testing.T) {
	due := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	tests := []struct {
		name string
		m    core.Message
		late time.Duration
		want string
	}{
		{"plain", core.Message{ID: "a1", Topic: "orders", Body: []byte("hello"), Attempt: 1}, 800 * time.Microsecond,
			`15:04:05.000  a1  orders  "hello"  late +0.8ms`},
		{"key and attempt", core.Message{ID: "a1", Topic: "orders", Key: []byte("k"), Body: []byte{}, Attempt: 3}, 250 * time.Millisecond,
			`15:04:05.250  a1  orders  key="k"  ""  attempt 3  late +250ms`},
		{"null body, empty key", core.Message{ID: "a1", Topic: "o", Key: []byte{}}, -time.Millisecond,
			`15:04:04.999  a1  o  key=""  null  late -1.0ms`},
		{"control bytes", core.Message{ID: "a1", Topic: "o\x1b[2J", Key: []byte("\r"), Body: []byte("x\ny\x1b[31m\x9b\u202e")}, 90 * time.Second,
			`15:05:35.000  a1  "o\x1b[2J"  key="\r"  "x\ny\x1b[31m\x9b\u202e"  late +1m30s`},
		{"long body is cut at a character", core.Message{ID: "a1", Topic: "o", Body: []byte("é" + strings.Repeat("x", 58) + "éé")}, 2 * time.Second,
			`15:04:07.000  a1  o  "é` + strings.Repeat("x", 58) + `"… (64 bytes)  late +2.00s`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.m.DeliverAt = due
			got := string(human(nil, &tt.m, due.Add(tt.late)))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONHasEverything(t *testing.T) {
	due := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	m := &core.Message{
		ID: "a1", Sink: "out", Topic: "orders", Key: []byte{0xff}, Body: []byte("<\x00>\u2028"), Attempt: 2, Priority: 7,
		DeliverAt: due, ExpiresAt: due.Add(time.Hour), Options: map[string]string{"retry.max": "1s"},
		Headers: []core.Header{{Name: "a", Value: []byte("1")}, {Name: "a", Value: nil}, {Name: "b", Value: []byte("\u009b")}},
	}
	got := string(object(nil, m, due.Add(1500*time.Microsecond)))
	want := `{"time":"2026-01-02T15:04:05.001Z","id":"a1","sink":"out","topic":"orders","key_base64":"/w==",` +
		`"headers":[{"name":"a","value":"1"},{"name":"a","value":null},{"name":"b","value":null,"value_base64":"wps="},` +
		`{"name":"delaybridge-id","value":"a1"},{"name":"delaybridge-attempt","value":"2"},{"name":"delaybridge-deliver-at","value":"2026-01-02T15:04:05.000Z"}],` +
		`"body":"<\u0000>\u2028","options":{"retry.max":"1s"},"priority":7,"deliver_at":"2026-01-02T15:04:05.000Z",` +
		`"expires_at":"2026-01-02T16:04:05.000Z","attempt":2,"lateness_ms":1.5}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestOpenDecodesStrictly(t *testing.T) {
	tests := []struct {
		config, field string // no field: accepted
	}{
		{``, ""}, {`{}`, ""}, {`{"format":"json"}`, ""}, {`{"format":"human"}`, ""},
		{`{"format":"xml"}`, "format"}, {`{"format":1}`, "format"}, {`{"colour":true}`, "colour"},
		{`[]`, "config"}, {`{`, "config"}, {`{} {}`, "config"},
	}
	for _, tt := range tests {
		t.Run(tt.config, func(t *testing.T) {
			_, err := Open(t.Context(), json.RawMessage(tt.config))
			if tt.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			invalid, ok := errors.AsType[*core.InvalidError](err)
			if !ok || invalid.Field != tt.field {
				t.Errorf("Open(%s) = %v, want an InvalidError for %q", tt.config, err, tt.field)
			}
		})
	}
}

func TestCheckLeavesOnlyRetryOptions(t *testing.T) {
	if err := checkOptions(&core.Message{Options: map[string]string{"retry.max": "1s"}}); err != nil {
		t.Error(err)
	}
	err := checkOptions(&core.Message{Options: map[string]string{"retry.max": "1s", "partition": "1"}})
	if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != "options.partition" {
		t.Errorf("Check = %v, want an InvalidError for options.partition", err)
	}
}

// cutWriter takes n bytes and then fails.
type cutWriter struct{ n int }

func (w *cutWriter) Write(p []byte) (int, error) {
	if len(p) <= w.n {
		w.n -= len(p)
		return len(p), nil
	}
	n := w.n
	w.n = 0
	return n, io.ErrClosedPipe
}

func TestWriterFails(t *testing.T) {
	batch := []*core.Message{{ID: "a", Topic: "t"}, {ID: "b", Topic: "t"}, {ID: "c", Topic: "t"}}
	var whole bytes.Buffer
	s, _ := New(&whole, Human)
	if err := s.Deliver(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	line := whole.Len() / 3

	s, _ = New(&cutWriter{0}, Human)
	err := s.Deliver(t.Context(), batch)
	if _, perMessage := errors.AsType[core.BatchError](err); perMessage || core.ClassOf(err) != core.Retry || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("nothing written: %v, want a Retry of the whole that wraps the writer's error", err)
	}

	s, _ = New(&cutWriter{line + line/2}, Human)
	results, ok := errors.AsType[core.BatchError](s.Deliver(t.Context(), batch))
	if !ok || len(results) != 3 {
		t.Fatalf("half written: %v, want a BatchError", results)
	}
	if results[0] != nil || core.ClassOf(results[1]) != core.Unknown || core.ClassOf(results[2]) != core.Blocked {
		t.Errorf("half written: %v, want nil, unknown, blocked", []error(results))
	}
}

func TestStalledWriterHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s, _ := New(w, Human)
		batch := []*core.Message{{ID: "a", Topic: "t"}}
		deliver := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return s.Deliver(ctx, batch)
		}
		if err := deliver(); core.ClassOf(err) != core.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the writer stalls: %v, want unknown at the deadline", err)
		}
		if err := deliver(); core.ClassOf(err) != core.Retry || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind a stalled write: %v, want retry at the deadline, as nothing was sent", err)
		}
		waiting := make(chan error)
		go func() { waiting <- s.Deliver(context.Background(), batch) }()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-waiting; !errors.Is(err, errClosed) {
			t.Errorf("at Close: %v, want %v", err, errClosed)
		}
		r.Close() // lets the stalled write end
	})
}
