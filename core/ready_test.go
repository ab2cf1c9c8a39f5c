package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// patient is a store whose health takes a while to tell.
type patient struct {
	Store
	takes time.Duration
	ill   atomic.Bool
	looks atomic.Int32
}

func (p *patient) Health(ctx context.Context) error {
	p.looks.Add(1)
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.ill.Load() {
		return errors.New("ill")
	}
	return nil
}

// However many ask, the store is asked by one at a time, and not more than once a
// second; and nobody hears what is older.
func TestReadySharesOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &patient{takes: 100 * time.Millisecond}
		in := NewBridge(store, Options{}, &Dispatcher{Name: "a"}).Interceptor
		var group sync.WaitGroup
		for range 5000 {
			group.Go(func() {
				for range 10 {
					if err := in.Ready(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if n := store.looks.Load(); n != 1 {
			t.Errorf("%d looks", n)
		}
		store.ill.Store(true)
		time.Sleep(readyFor)
		if err := in.Ready(t.Context()); err == nil || err.Error() != "ill" {
			t.Errorf("got %v", err)
		}
	})
}

// One who gives up neither waits for the look of another nor spoils it.
func TestReadyWhereOneGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &patient{takes: time.Second}
		in := NewBridge(store, Options{}, &Dispatcher{Name: "a"}).Interceptor
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		looked := make(chan error)
		go func() { looked <- in.Ready(brief) }()
		synctest.Wait()
		begun := time.Now()
		if err := in.Ready(brief); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
		if err := <-looked; err != nil {
			t.Error(err)
		}
		if err := in.Ready(t.Context()); err != nil || store.looks.Load() != 1 {
			t.Errorf("got %v, %d looks", err, store.looks.Load())
		}
	})
}

// A store that does not answer is given up.
func TestReadyOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := NewBridge(&patient{takes: time.Hour}, Options{}, &Dispatcher{Name: "a"}).Interceptor
		begun := time.Now()
		if err := in.Ready(t.Context()); err == nil || time.Since(begun) != lookTimeout {
			t.Errorf("got %v after %s", err, time.Since(begun))
		}
	})
}
