package stall

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		stop := WatchServer(func() error {
			time.Sleep(time.Millisecond)
			if at := time.Since(began); at > time.Second && at < 3*time.Second {
				return errors.New("does not answer")
			}
			return nil
		})
		time.Sleep(5 * time.Second)
		if stood := stop(); stood < 2*time.Second-everyAsk || stood > 2*time.Second+everyAsk {
			t.Errorf("did not answer for %s, want about 2 s", stood)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := Watch()
		time.Sleep(time.Second)
		if stood := stop(); stood != 0 {
			t.Errorf("stalled for %s in virtual time, where nobody waits for a turn", stood)
		}
		if again := stop(); again != 0 {
			t.Errorf("then for %s", again)
		}
	})
}
