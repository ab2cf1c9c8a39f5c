package core_test

import (
	"context"
	"testing"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/core/memstore"
)

// wrapped and wrappedStore let through whatever they wrap can do; opaque does not.
type (
	wrapped      struct{ core.Sink }
	wrappedStore struct{ core.Store }
	opaque       struct{ core.Sink }
)

func (w wrapped) Unwrap() core.Sink       { return w.Sink }
func (w wrappedStore) Unwrap() core.Store { return w.Store }

// altering is a wrapper that checks by itself.
type altering struct{ wrapped }

func (altering) Check(context.Context, []*core.Message) error { return core.ErrNotTried }

func TestAbilityBehindWrappers(t *testing.T) {
	checks := &checking{check: func(context.Context, []*core.Message) error { return nil }}
	for name, c := range map[string]struct {
		sink core.Sink
		want bool
	}{
		"itself":                {checks, true},
		"wrapped twice":         {wrapped{wrapped{checks}}, true},
		"behind an opaque one":  {wrapped{opaque{checks}}, false},
		"nobody":                {wrapped{opaque{}}, false},
		"a wrapper of nothing":  {wrapped{}, false},
		"a wrapper that checks": {wrapped{altering{}}, true},
		"no sink":               {nil, false},
	} {
		if _, ok := core.Ability[core.Checker](c.sink); ok != c.want {
			t.Errorf("%s: found %v, want %v", name, ok, c.want)
		}
	}
	checker, _ := core.Ability[core.Checker](wrapped{altering{wrapped{checks}}})
	if err := checker.Check(t.Context(), nil); err != core.ErrNotTried || len(checks.batches) != 0 {
		t.Errorf("the outer ability is not the one found: %v", err)
	}
}

// A wrapped store and sinks serve the Interceptor as those that they wrap do.
func TestInterceptorAsksWhatIsWrapped(t *testing.T) {
	sink := &checking{check: func(context.Context, []*core.Message) error { return core.BatchError{core.Invalidf("topic", "is odd")} }}
	store := memstore.New(memstore.Config{})
	in := core.NewBridge(wrappedStore{wrappedStore{store}}, core.Options{}, &core.Dispatcher{Name: "a", Sink: wrapped{sink}}).Interceptor
	if r := in.Accept(t.Context(), toSinks("a")...)[0]; r.Err == nil {
		t.Error("the sink is not asked")
	}
	if got := in.Durability(); got != store.Durability() {
		t.Errorf("durability %q", got)
	}
	if _, err := in.List(t.Context(), core.Query{Limit: 1}); err != nil {
		t.Error(err)
	}
	if _, err := in.Stats(t.Context(), ""); err != nil {
		t.Error(err)
	}
}
