package source

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Assigned[*Position]
		lags := func(what string, lag int64, age time.Duration) {
			t.Helper()
			var r core.SourceReport
			if a.Report(&r); r.Lag != lag || r.LagTime != age {
				t.Errorf("%s: %d records, %s; want %d, %s", what, r.Lag, r.LagTime, lag, age)
			}
		}
		lags("nothing assigned", -1, -1)
		one, two := new(Position), new(Position)
		a.Set([]*Position{one, two})
		lags("nothing read", 0, 0)
		one.End.Store(7)
		one.Parked.Store(5)
		two.Parked.Store(3) // and where it ends is not known yet
		lags("no time known", 2, 0)
		one.Sent(time.Now().Add(-time.Minute))
		two.Sent(time.Now().Add(-time.Hour))
		lags("one is behind", 2, time.Minute)
		time.Sleep(time.Second)
		lags("a second later", 2, time.Minute+time.Second)
		one.Sent(time.Now().Add(time.Second))
		lags("by a clock that is ahead", 2, 0)
		one.Sent(time.Time{})
		a.Set([]*Position{one})
		lags("without a time", 2, -1)
		a.Set(nil)
		lags("nothing assigned any more", -1, -1)
	})
}
