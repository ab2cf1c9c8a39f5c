package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// slow is a bridge without a network, for tests with virtual time: it stores at once
// and answers after a while.
type slow struct {
	store   *spy
	handler http.Handler
	answer  time.Duration
	sizes   []int // of the requests, in messages
}

func newSlow(t *testing.T, answer time.Duration) *slow {
	t.Helper()
	s := &slow{store: &spy{Store: memstore.New(memstore.Config{})}, answer: answer}
	server, err := httplistener.New(httplistener.Config{}, core.NewBridge(s.store, core.Options{}, &core.Dispatcher{Name: "orders"}).Interceptor)
	if err != nil {
		t.Fatal(err)
	}
	s.handler = server.Handler()
	return s
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.sizes = append(s.sizes, bytes.Count(body, []byte("\n"))+1)
	inner := httptest.NewRequest(r.Method, r.URL.RequestURI(), bytes.NewReader(body))
	inner.Header, inner.Host = r.Header, "localhost"
	reply := httptest.NewRecorder()
	s.handler.ServeHTTP(reply, inner)
	select {
	case <-time.After(s.answer):
		return reply.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func publisherOf(t *testing.T, transport http.RoundTripper, config client.Config) *client.Publisher {
	t.Helper()
	config.URL, config.HTTP = "http://bridge", &http.Client{Transport: transport}
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.NewPublisher()
}

func publishAll(p *client.Publisher, list []client.Message) []*client.Result {
	results := make([]*client.Result, len(list))
	for n, m := range list {
		results[n] = p.Publish(context.Background(), m)
	}
	return results
}

func ended(r *client.Result) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// outcome returns the result of a message that must be there without waiting.
func outcome(t *testing.T, r *client.Result) (client.Receipt, error) {
	t.Helper()
	if !ended(r) {
		t.Fatal("a message has no result")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the result counts even so
	return r.Get(ctx)
}

// TestPublisherFillsRequests: what comes while a request is on its way leaves with the
// next, in order.
func TestPublisherFillsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t, time.Second)
		p, began := publisherOf(t, s, client.Config{}), time.Now()
		list := messages(1102, 1)
		results := publishAll(p, list[:1])
		synctest.Wait()
		results = append(results, publishAll(p, list[1:1101])...)
		if took := time.Since(began); took != 0 {
			t.Errorf("it blocked for %s", took)
		}
		if receipt, err := results[0].Get(context.Background()); err != nil || receipt.ID != "m-0" || receipt.State != client.Scheduled || time.Since(began) != time.Second {
			t.Errorf("got %+v, %v after %s", receipt, err, time.Since(began))
		}
		if err := p.Flush(context.Background()); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		for n, r := range results {
			if receipt, err := outcome(t, r); err != nil || receipt.ID != fmt.Sprint("m-", n) {
				t.Fatalf("got %+v, %v for m-%d", receipt, err, n)
			}
		}
		late := p.Publish(context.Background(), list[1101])
		if err := p.Close(context.Background()); err != nil || !ended(late) {
			t.Errorf("closed: %v, the result is there: %t", err, ended(late))
		}
		(&listener{store: s.store}).parkedOnce(t, 1102)
		if want := []int{1, 500, 500, 100, 1}; !slices.Equal(s.sizes, want) {
			t.Errorf("the requests had %v messages", s.sizes)
		}
	})
}

// TestPublisherBounds: Publish waits for room, and not longer than its context.
func TestPublisherBounds(t *testing.T) {
	for name, config := range map[string]client.Config{"messages": {MaxPending: 2}, "bytes": {MaxPendingBytes: 1000}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlow(t, time.Second)
				p, began := publisherOf(t, s, config), time.Now()
				list := messages(5, 400)
				publishAll(p, list[:1])
				synctest.Wait()
				publishAll(p, list[1:2])
				ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
				defer cancel()
				_, err := outcome(t, p.Publish(ctx, list[2]))
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnknown) || time.Since(began) != time.Second/2 {
					t.Errorf("got %v after %s", err, time.Since(began))
				}
				if _, err := outcome(t, p.Publish(ctx, list[2])); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with a context that has ended: %v", err)
				}
				var others sync.WaitGroup
				for _, m := range list[2:4] {
					others.Go(func() { p.Publish(context.Background(), m) })
				}
				others.Wait()
				if took := time.Since(began); took != 2*time.Second {
					t.Errorf("there was room after %s", took)
				}
				if err := p.Flush(context.Background()); err != nil {
					t.Error(err)
				}
				large := list[4]
				large.Body = make([]byte, 2000)
				if _, err := p.Publish(context.Background(), large).Get(context.Background()); err != nil {
					t.Errorf("larger than all bounds: %v", err)
				}
				if len(s.store.parked) != 5 {
					t.Errorf("stored were %d", len(s.store.parked))
				}
			})
		})
	}
}

// TestPublisherResults: a message is refused by itself, and a context bounds the wait
// for a result only.
func TestPublisherResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t, time.Second)
		p := publisherOf(t, s, client.Config{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		if receipt, err := outcome(t, p.Publish(ctx, client.Message{ID: "i", Topic: "t"})); !errors.Is(err, client.ErrInvalid) || receipt.ID != "i" {
			t.Errorf("without a time: %+v, %v", receipt, err)
		}
		results := publishAll(p, messages(1, 1))
		synctest.Wait()
		results = append(results, publishAll(p, []client.Message{{Topic: "t", Delay: -1}, {Topic: "t", Delay: client.Now}})...)
		if receipt, err := results[0].Get(ctx); receipt.ID != "m-0" || !errors.Is(err, client.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the answer: %+v, %v", receipt, err)
		}
		if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		if err := p.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		for n, want := range []error{nil, client.ErrInvalid, nil} {
			if receipt, err := outcome(t, results[n]); !errors.Is(err, want) || receipt.ID == "" || (receipt.State == client.Scheduled) != (want == nil) {
				t.Errorf("message %d: %+v, %v", n, receipt, err)
			}
		}
		if err := p.Close(ctx); err != nil {
			t.Errorf("close with nothing to wait for: %v", err)
		}
	})
}

// TestPublisherGivesUp: the bridge is gone for longer than Patience; what was not sent
// fails as well, and can be published again.
func TestPublisherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []any{errReset}}
		p, began := publisherOf(t, s, client.Config{}), time.Now()
		list := messages(700, 1)
		results := publishAll(p, list[:1])
		synctest.Wait()
		results = append(results, publishAll(p, list[1:])...)
		if err := p.Flush(context.Background()); err != nil || time.Since(began) > time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		for n, r := range results {
			_, err := outcome(t, r)
			if errors.Is(err, client.ErrUnknown) != (n == 0) || errors.Is(err, client.ErrUnavailable) != (n > 0) {
				t.Fatalf("message %d: %v", n, err)
			}
		}
		s.answers = []any{stored}
		if _, err := p.Publish(context.Background(), client.Message{ID: "i", Topic: "t", Delay: 1}).Get(context.Background()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestPublisherClose: with no time left, every message has a result.
func TestPublisherClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t, 10*time.Second)
		p, began := publisherOf(t, s, client.Config{MaxPending: 3}), time.Now()
		list := messages(5, 1)
		results := publishAll(p, list[:1])
		synctest.Wait()
		results = append(results, publishAll(p, list[1:3])...)
		blocked := make(chan *client.Result)
		go func() { blocked <- p.Publish(context.Background(), list[3]) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		closed := make(chan error)
		go func() { closed <- p.Close(ctx) }()
		for _, r := range []*client.Result{<-blocked, p.Publish(ctx, list[4])} {
			if _, err := outcome(t, r); err == nil || errors.Is(err, client.ErrUnknown) || time.Since(began) != 0 {
				t.Errorf("after Close: %v", err)
			}
		}
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		for n, r := range results {
			if _, err := outcome(t, r); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnknown) != (n == 0) {
				t.Errorf("message %d: %v", n, err)
			}
		}
		if err := p.Close(context.Background()); err != nil || len(s.store.parked) != 1 {
			t.Errorf("closed again: %v; stored are %d", err, len(s.store.parked))
		}
	})
}
