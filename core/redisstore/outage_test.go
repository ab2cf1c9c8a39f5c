package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// lines counts what is logged, by text.
type lines struct {
	mu    sync.Mutex
	texts map[string]int
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "what" {
			text = a.Value.String()
		}
		return true
	})
	if r.Level > slog.LevelDebug {
		l.texts[text]++
	}
	return nil
}

func (l *lines) of(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.texts[text]
}

// TestOutageIsAFewLines: a Redis that is gone concerns every bucket of every sink,
// and the log says so in a few lines a second; one when it answers again.
func TestOutageIsAFewLines(t *testing.T) {
	t.Parallel()
	const sinks = 50
	redis, logged := servers.Redis(t, servers.RedisOptions{}), &lines{texts: make(map[string]int)}
	s := open(t, Config{Addrs: []string{redis.Addr()}, Guard: 500 * time.Millisecond, Lease: 10 * time.Second, Log: slog.New(logged)})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for n := range sinks {
		d := &core.Dispatcher{Name: fmt.Sprintf("sink%d", n), Sink: newCollector(0)}
		serving.Go(func() {
			if err := s.Serve(ctx, d.Name, d.Run); err != nil {
				t.Error(err)
			}
		})
	}
	defer serving.Wait()
	defer cancel()
	owned := func() int {
		s.owned.mu.Lock()
		defer s.owned.mu.Unlock()
		all := 0
		for _, sink := range s.owned.all {
			all += len(sink)
		}
		return all
	}
	until(t, "all is owned", func() bool { return owned() == sinks*16 })

	began := time.Now()
	redis.Kill()
	until(t, "heartbeats fail", func() bool { return s.silentSinks.Load() == sinks })
	until(t, "all is lost", func() bool { return owned() == 0 })
	redis.Start()
	until(t, "all is owned again", func() bool { return owned() == sinks*16 })
	until(t, "the log knows", func() bool { return logged.of("heartbeat works again") > 0 })

	logged.mu.Lock()
	defer logged.mu.Unlock()
	most := 2 * (int(time.Since(began)/time.Second) + 2) // the first of a second and a summary
	for text, n := range logged.texts {
		if n > most {
			t.Errorf("%d lines in %s, want at most %d: %s", n, time.Since(began), most, text)
		}
	}
	if n := logged.texts["heartbeat works again"]; n > 2 { // one, unless Redis is slow to come back
		t.Errorf("the log says %d times that Redis answers again", n)
	}
	t.Logf("%s: %v", time.Since(began), logged.texts)
}
