package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
	"github.com/delaybridge/delaybridge/core/storetest"
)

var (
	_ core.Store         = (*memstore.Store)(nil)
	_ core.Inspector     = (*memstore.Store)(nil)
	_ core.Fleet         = (*memstore.Store)(nil)
	_ core.HealthChecker = (*memstore.Store)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(_ *testing.T, c storetest.Config) core.Store {
			return memstore.New(memstore.Config{Buckets: c.Buckets, DedupeWindow: c.DedupeWindow, Guard: storetest.Guard})
		},
		Second: func(_ *testing.T, first core.Store) core.Store { return first },
		Kill:   func(_ *testing.T, store core.Store) { store.(*memstore.Store).Kill() },
	})
}
