package plugin

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestParentGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parent atomic.Int64
		parent.Store(7)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gone := parentGone(ctx, func() int { return int(parent.Load()) })
		time.Sleep(time.Hour)
		select {
		case <-gone:
			t.Fatal("gone while the parent is there")
		default:
		}
		parent.Store(1)
		begin := time.Now()
		<-gone
		if took := time.Since(begin); took > parentEvery {
			t.Errorf("noticed after %s", took)
		}
	})
}
