package core

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// lister is a store that notes what it is asked to list.
type lister struct {
	Store
	asked []Query
	steps TimelineQuery // as it was asked for
}

func (l *lister) List(_ context.Context, query Query) (Page, error) {
	l.asked = append(l.asked, query)
	return Page{}, nil
}

func (l *lister) Stats(context.Context, ...string) ([]SinkStats, error) { return nil, nil }

func (l *lister) Timeline(_ context.Context, query TimelineQuery) (Timeline, error) {
	l.steps = query
	return Timeline{Due: make([]int, query.Steps())}, nil
}

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

func TestTimelineIsBounded(t *testing.T) {
	store := &lister{}
	in := NewBridge(store, Options{}, &Dispatcher{Name: "a"}, &Dispatcher{Name: "b"}).Interceptor
	at := func(s int) time.Time { return time.Unix(1_800_000_000+int64(s), 0) }
	for _, test := range []struct {
		field string
		query TimelineQuery
	}{
		{"step", TimelineQuery{}},
		{"step", TimelineQuery{Step: -time.Second}},
		{"step", TimelineQuery{Step: 367 * 24 * time.Hour}},
		{"step", TimelineQuery{Step: time.Second, From: at(0), To: at(241)}},
		{"step", TimelineQuery{Step: 1, From: at(0), To: at(241)}},
		{"step", TimelineQuery{Step: time.Hour, From: time.Unix(0, 0), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"to", TimelineQuery{Step: time.Second, From: at(0), To: at(0)}},
		{"to", TimelineQuery{Step: time.Second, From: at(1), To: at(0)}},
		{"to", TimelineQuery{Step: time.Second, To: at(-1_000_000_000)}},
		{"to", TimelineQuery{Step: time.Hour, From: time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)}},
		{"sink", TimelineQuery{Step: time.Second, Sinks: []string{"c"}}},
		{"sink", TimelineQuery{Step: time.Second, Sinks: []string{"a", "a"}}},
	} {
		_, err := in.Timeline(t.Context(), test.query)
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != test.field {
			t.Errorf("%+v: got %v, want %s invalid", test.query, err, test.field)
		}
	}
	if store.steps.Step != 0 {
		t.Errorf("the store was asked for %+v", store.steps)
	}
	got, err := in.Timeline(t.Context(), TimelineQuery{Step: time.Second, From: at(0), To: at(239).Add(1)})
	if err != nil || len(got.Due) != MaxSteps || !got.To.Equal(at(240)) || len(store.steps.Sinks) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	now := time.Now()
	got, err = in.Timeline(t.Context(), TimelineQuery{Step: time.Hour, Sinks: []string{"b"}})
	if err != nil || len(got.Due) != defaultSteps || now.Sub(got.From) >= time.Hour || now.Before(got.From) || got.From.UnixMilli()%3_600_000 != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
