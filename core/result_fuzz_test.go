package core

import (
	"errors"
	"testing"
	"time"
)

// FuzzAskedFor: however long a broker or a plugin asks us to wait, a message is
// tried again within the longest wait that a configuration could have set.
func FuzzAskedFor(f *testing.F) {
	f.Add(int64(0), 1)
	f.Add(int64(-1), 3)
	f.Add(int64(time.Hour), 2)
	f.Add(int64(1<<63-1), 15)
	f.Fuzz(func(t *testing.T, after int64, attempt int) {
		loop := &bucketLoop{Dispatcher: &Dispatcher{Name: "orders"}, bucket: namedBucket{}}
		m := &Message{ID: "a", Attempt: max(1, attempt)}
		o := loop.failed(m, &SinkError{Class: Retry, After: time.Duration(after), Err: errors.New("busy")}, time.Now())
		if o.State == Retrying && (o.After <= 0 || o.After > maxRetryWait || o.After < min(time.Duration(after), maxRetryWait)) {
			t.Errorf("asked to wait %s, waits %s", time.Duration(after), o.After)
		}
	})
}
