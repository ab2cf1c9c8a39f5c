package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/core/memstore"
)

// BenchmarkPark parks into one bucket in no order of due times. What it takes
// for one must hardly grow with what is parked already.
func BenchmarkPark(b *testing.B) {
	store, n := memstore.New(memstore.Config{Buckets: 1}), 0
	for b.Loop() {
		n++
		m := message(strconv.Itoa(n))
		m.Delay = time.Duration(1+n*7919%1_000_003) * time.Second
		if receipt := store.Park(b.Context(), m)[0]; receipt.Err != nil {
			b.Fatal(receipt.Err)
		}
	}
}
