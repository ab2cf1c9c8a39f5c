package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/plugintest"
	"github.com/delaybridge/delaybridge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m, definition()).Run()) }

func TestConformance(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		dir := t.TempDir()
		sinktest.Run(t, kit(dir, func(t testing.TB) core.Sink {
			s, err := open(t.Context(), fmt.Appendf(nil, `{"dir":%q}`, dir))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}))
	})
	t.Run("as plugin", func(t *testing.T) {
		dir := t.TempDir()
		k := kit(dir, func(t testing.TB) core.Sink { return plugintest.Open(t, "file", map[string]string{"dir": dir}) })
		k.Rounds = 10 // each starts a process
		sinktest.Run(t, k)
	})
}

var topics atomic.Int32

func kit(dir string, open func(testing.TB) core.Sink) sinktest.Kit {
	newTopic := func(testing.TB) string { return fmt.Sprintf("topic-%d", topics.Add(1)) }
	return sinktest.Kit{
		Open:     open,
		NewTopic: newTopic,
		Consume: func(t testing.TB, topic string) sinktest.Reader {
			return follow(t, filepath.Join(dir, topic+suffix))
		},
		Can: []sinktest.Capability{sinktest.Headers, sinktest.HeaderOrder, sinktest.RepeatedHeaders, sinktest.BinaryHeaders,
			sinktest.NullHeaders, sinktest.EmptyBody, sinktest.NullBody, sinktest.Keys, sinktest.NullKeys, sinktest.Ordered},
		NoRights: &sinktest.Refusal{Class: core.TopicBlocked, Topic: func(t testing.TB) string {
			topic := newTopic(t)
			if err := os.Mkdir(filepath.Join(dir, topic+suffix), 0o700); err != nil { // as root may write to all files
				t.Fatal(err)
			}
			return topic
		}},
		Hostile: []*core.Message{{Topic: "."}, {Topic: ".."}, {Topic: "/etc/passwd"}, {Topic: "a/../b"}, {Topic: `a\b`}},
	}
}

// follow reads a file as it grows, and waits until it is there.
func follow(t testing.TB, path string) sinktest.Reader {
	var lines *bufio.Reader
	var begun []byte
	return func(ctx context.Context) (sinktest.Received, error) {
		for {
			if lines == nil {
				if file, err := os.Open(path); err == nil {
					t.Cleanup(func() { file.Close() })
					lines = bufio.NewReader(file)
				}
			}
			if lines != nil {
				more, err := lines.ReadBytes('\n')
				if begun = append(begun, more...); err == nil {
					r, err := received(begun)
					begun = nil
					return r, err
				}
				if !errors.Is(err, io.EOF) {
					return sinktest.Received{}, err
				}
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return sinktest.Received{}, ctx.Err()
			}
		}
	}
}

func received(text []byte) (sinktest.Received, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return sinktest.Received{}, err
	}
	r := sinktest.Received{Body: l.Body, Key: l.Key}
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, core.Header(h))
	}
	return r, nil
}

func TestLine(t *testing.T) {
	m := &core.Message{ID: "a1", Key: []byte("k"), Headers: []core.Header{{Name: "n"}}, DeliverAt: time.Unix(0, 0), Attempt: 1}
	want := `{"id":"a1","key_base64":"aw==","headers":[{"name":"n","value_base64":null},` +
		`{"name":"delaybridge-id","value_base64":"YTE="},{"name":"delaybridge-attempt","value_base64":"MQ=="},` +
		`{"name":"delaybridge-deliver-at","value_base64":"MTk3MC0wMS0wMVQwMDowMDowMC4wMDBa"}],"body_base64":null}` + "\n"
	if got := string(encode(m)); got != want {
		t.Errorf("line %s, want %s", got, want)
	}
}

func TestConfig(t *testing.T) {
	for config, field := range map[string]string{
		`{}`: "dir", `{"dir":"relative"}`: "dir", `{"dir":"/no/such/directory"}`: "dir", `{"dir":1}`: "config", `{"directory":"/tmp"}`: "directory",
	} {
		_, err := open(t.Context(), json.RawMessage(config))
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("open with %s: %v, want a fault in %s", config, err, field)
		}
	}
}
