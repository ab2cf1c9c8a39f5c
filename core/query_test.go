package core

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// lister is a store that notes what it is asked to list.
type lister struct {
	Store
	asked []Query
}

func (l *lister) List(_ context.Context, query Query) (Page, error) {
	l.asked = append(l.asked, query)
	return Page{}, nil
}

func (l *lister) Stats(context.Context, ...string) ([]SinkStats, error) { return nil, nil }

// A query makes the store work for what there is, however often that is named.
func TestListBoundsWhatIsNamed(t *testing.T) {
	store := &lister{}
	in := NewBridge(store, Options{}, &Dispatcher{Name: "a"}, &Dispatcher{Name: "b"}).Interceptor
	for field, query := range map[string]Query{
		"sink":  {Limit: 1, Sinks: slices.Repeat([]string{"a"}, 460_000)},
		"state": {Limit: 1, States: slices.Repeat([]State{Scheduled}, 460_000)},
		"topic": {Limit: 1, Topic: strings.Repeat("t", MaxTopicLen+1)},
	} {
		_, err := in.List(t.Context(), query)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != field || len(invalid.Reason) > 100 {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := in.List(t.Context(), Query{Limit: 1, Cursor: strings.Repeat("c", 1<<20)}); !errors.Is(err, ErrBadCursor) {
		t.Errorf("got %v", err)
	}
	if len(store.asked) != 0 {
		t.Errorf("the store was asked %d times", len(store.asked))
	}
	if _, err := in.List(t.Context(), Query{Limit: 1, Sinks: []string{"b", "a"}, States: []State{Dead, Expired}}); err != nil || len(store.asked) != 1 {
		t.Errorf("an honest one: %v", err)
	}
}

// A key that no message can have is not looked for.
func TestRefBoundsTheKey(t *testing.T) {
	in := NewBridge(&lister{}, Options{}, &Dispatcher{Name: "a"}).Interceptor
	_, err := in.Get(t.Context(), Ref{ID: "id", Key: make([]byte, MaxKeyLen+1)})
	if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != "key" {
		t.Errorf("got %v", err)
	}
}
