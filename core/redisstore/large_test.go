package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// TestTakeOfLargeRecords: what is taken at once stays small enough to arrive in
// time, however large a body may be, and goes on to the end.
func TestTakeOfLargeRecords(t *testing.T) {
	const size, many = 3 << 20, 12
	s, b := bucketWith(t)
	for n := range many {
		m := &core.Message{ID: fmt.Sprint("m", n), Sink: "orders", Topic: "t", Body: make([]byte, size), DeliverAt: time.Now().Add(-time.Second)}
		if r := s.Park(t.Context(), m)[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for taken := 0; taken < many; {
		batch, err := b.Take(t.Context(), core.MaxTake)
		if n := len(batch.Messages); err != nil || n == 0 || n > maxTakeBytes/size+1 {
			t.Fatalf("took %d messages of %d bytes at once, %v", n, size, err)
		}
		var ids []string
		for _, m := range batch.Messages {
			ids = append(ids, m.ID)
		}
		settle(t, b, ids...)
		taken += len(ids)
	}
}
