//go:build unix

package kafkasource

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/interceptors/source/sourcetest"
)

// TestTooLargeToReject: whatever it is of a record that does not fit into the
// reject topic is left out, and does not hold up what comes after.
func TestTooLargeToReject(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1), r.topic(".rejected", 1)
	const most = 1_048_588 // of a topic
	r.produce(topic, 0, kafka.Record{Headers: []kafka.Header{{Key: "delaybridge-delay", Value: []byte("1h")}, {Key: "h", Value: make([]byte, most-200)}}})
	r.produceBatch(topic, 0, compress.Gzip, text(strings.Repeat("k", 5<<20), "value", "delaybridge-delay", "1h"))
	r.produceBatch(topic, 0, compress.Gzip, text("both", strings.Repeat("v", 5<<20), many(2000, "delaybridge-delay", "1h")...))
	r.produce(topic, 0, text("k", "many", many(2000, "delaybridge-delay", "1h")...))
	r.produce(topic, 0, text("k", "good", "delaybridge-delay", "1h"))
	src := r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects}))
	wants := []struct{ reason, left, key, value string }{
		{"headers: are larger than 8192 bytes together", "key,value,headers", "", ""},
		{"key: is longer than 1024 bytes", "key,value,headers", "", ""},
		{"headers: are more than 64", "value,headers", "both", ""},
		{"headers: are more than 64", "headers", "k", "many"},
	}
	for n, f := range r.read(rejects, len(wants)) {
		want := wants[n]
		if f.header("delaybridge-reject-reason") != want.reason || f.header("delaybridge-reject-left-out") != want.left ||
			string(f.key) != want.key || string(f.value) != want.value || f.header("delaybridge-source-offset") != strconv.Itoa(n) {
			t.Errorf("rejected %d: key %q, value of %d bytes, headers %q, want %+v", n, f.key, len(f.value), f.headers, want)
		}
	}
	r.store.Await(t, 1)
	if err := src.Stop(); err != nil {
		t.Error(err)
	}
	if report := src.Report(); report.Rejected != uint64(len(wants)) || report.Parked != 1 || report.Retried != 0 {
		t.Errorf("%+v", report)
	}
}

// many appends n headers to those given.
func many(n int, headers ...string) []string {
	for range n {
		headers = append(headers, "h", "")
	}
	return headers
}

// TestTooLargeToSend: a value that may not get through in time is not tried,
// even if the topic would take it.
func TestTooLargeToSend(t *testing.T) {
	r := newRig(t)
	topic, rejects := r.topic(".delayed", 1), r.topic(".rejected", 1, "max.message.bytes=33554432")
	r.produceBatch(topic, 0, compress.Gzip, text("k", strings.Repeat("v", 15<<20), "delaybridge-delay", "1h"))
	r.produceBatch(topic, 0, compress.Gzip, text("k", strings.Repeat("v", 17<<20), "delaybridge-delay", "1h"))
	r.produceBatch(topic, 0, compress.Gzip, text(strings.Repeat("k", 17<<20), "v", "delaybridge-delay", "1h"))
	r.run(r.source([]string{topic}, map[string]any{"reject_topic": rejects, "request_timeout": "20s"}))
	got := r.read(rejects, 3)
	if f := got[0]; len(f.value) != 15<<20 || f.header("delaybridge-reject-left-out") != "(none)" {
		t.Errorf("15 MiB: a value of %d bytes, headers %q", len(f.value), f.headers)
	}
	if f := got[1]; f.value != nil || string(f.key) != "k" || f.header("delaybridge-reject-left-out") != "value" {
		t.Errorf("17 MiB: a value of %d bytes, headers %q", len(f.value), f.headers)
	}
	if f := got[2]; f.value != nil || f.key != nil || f.header("delaybridge-reject-left-out") != "key,value,headers" {
		t.Errorf("a key of 17 MiB: a key of %d bytes, headers %q", len(f.key), f.headers)
	}
}

// widest tells the most messages that were parked at once.
type widest struct {
	sourcetest.Nowhere
	messages int
}

func (w *widest) Park(ctx context.Context, messages ...*core.Message) []core.Receipt {
	w.messages = max(w.messages, len(messages))
	return w.Nowhere.Park(ctx, messages...)
}

// chunkOn is a chunk of a source that needs no broker.
func chunkOn(t *testing.T, store core.Store, limits core.Limits) *chunk {
	t.Helper()
	src, err := New("src", []byte(`{"brokers": ["a:1"], "topics": ["a"], "sink": "out", "topic": "b", "on_bad_record": "stop"}`),
		core.NewBridge(store, core.Options{Limits: limits}, &core.Dispatcher{Name: "out"}).Interceptor, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newChunk(src.settings.batch, src.parker.In.Limits().MaxHeaders)
	c.partition = &partition{session: newSession(&membership{member: newMember(src, nil, nil)}, nil), topic: "a", id: "k:src:a:0:"}
	return c
}

func headersOf(n int, value []byte) []core.Header {
	made := []core.Header{{Name: "delaybridge-delay", Value: []byte("1h")}}
	for range n {
		made = append(made, core.Header{Name: "h", Value: value})
	}
	return made
}

// TestManyHeaders: a record with two million headers costs no more memory than
// it has itself, and core's refusal is what it gets.
func TestManyHeaders(t *testing.T) {
	for _, limits := range []core.Limits{{}, {MaxHeaders: 10000}} {
		page := page{answer: answer{records: written{records: []record{{headers: headersOf(2<<20, nil)}}}.encode()}}
		c := chunkOn(t, memstore.New(memstore.Config{}), limits)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.park(t.Context(), &page)
		runtime.ReadMemStats(&after)
		refused, ok := errors.AsType[*source.RefusedError](err)
		want := core.Invalidf("headers", "are more than %d", c.parker.In.Limits().MaxHeaders)
		want.TooLarge = true
		if invalid, is := errors.AsType[*core.InvalidError](err); !ok || !is || *invalid != *want || positionOf(refused.ID) != "k:src:a:0:0" {
			t.Errorf("%+v: got %v", limits, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%+v: it took %d bytes of memory", limits, used)
		}
	}
}

// TestHeadersThatAreAllowed: what core accepts is not refused before.
func TestHeadersThatAreAllowed(t *testing.T) {
	for _, headers := range []int{1, 64, 1000, 10000} {
		store := &widest{}
		c := chunkOn(t, store, core.Limits{MaxHeaders: headers, MaxHeaderBytes: 1 << 20})
		page := page{answer: answer{records: written{records: []record{{headers: headersOf(headers, nil)}}}.encode()}}
		if err := c.park(t.Context(), &page); err != nil || store.messages != 1 {
			t.Errorf("%d headers: %v", headers, err)
		}
	}
}

// TestChunkIsBounded: a chunk ends before keys and headers get too many, and
// those of records that are skipped are not kept.
func TestChunkIsBounded(t *testing.T) {
	limits := core.Limits{MaxHeaders: 1000}
	for _, test := range []struct {
		name string
		record
		most int
	}{
		{"long headers", record{headers: headersOf(1, make([]byte, 8000))}, 1 + maxChunkBytes/8000},
		{"many headers", record{headers: headersOf(1000, nil)}, 70},
		{"keys", record{key: make([]byte, 1024), headers: headersOf(3, make([]byte, 2500))}, 1 + maxChunkBytes/8500},
		{"small ones", record{value: bytes.Repeat([]byte("x"), 200), headers: headersOf(60, nil)}, maxBatch},
	} {
		store := &widest{}
		c, w := chunkOn(t, store, limits), written{}
		for range 2 * maxBatch {
			w.records = append(w.records, test.record)
		}
		answer := answer{records: w.encode()}
		if err := c.park(t.Context(), &page{answer: answer}); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if store.messages > test.most || test.most == maxBatch && store.messages < maxBatch {
			t.Errorf("%s: %d messages at once, want %d", test.name, store.messages, test.most)
		}
		c = chunkOn(t, store, limits)
		if err := c.park(t.Context(), &page{answer: answer, offset: 2*maxBatch - 1}); err != nil || c.upTo != 2*maxBatch {
			t.Fatalf("%s: up to %d, %v", test.name, c.upTo, err)
		}
		if c.messages[0].Headers != nil || c.origins[:1][0].headers != nil {
			t.Errorf("%s: what is parked is still held", test.name)
		}
		if n := cap(c.headers); n > 4*len(test.headers)+10 {
			t.Errorf("%s: room for %d headers, for one record", test.name, n)
		}
	}
}
