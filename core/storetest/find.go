package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

func findRules() []rule {
	return []rule{
		{"without the key, in all buckets", withoutKey},
		{"an id under two keys is ambiguous", twoKeys},
		{"an id without a key means the message without one", withoutAnyKey},
		{"the key must be the message's", keyMustMatch},
		{"stored before remembered", storedBeforeRemembered},
		{"an id in the form of a generated one", lookalike},
		{"ids and keys reach nothing else", nothingElse},
	}
}

func withoutKey(t *suite) {
	const n = 8
	store := t.open(n)
	for b := range n {
		id := fmt.Sprint("m", b)
		park(t, store, message(id, later(), key(keyIn(b, n))))
		wantState(t, store, id, core.Scheduled)
		if _, err := store.Cancel(patient(t), ref(id)); err != nil {
			t.Errorf("cancel in bucket %d: %v", b, err)
		}
	}
}

func twoKeys(t *suite) {
	const n = 4
	store, k1, k2 := t.open(n), keyIn(1, n), keyIn(2, n)
	park(t, store, message("m", later(), key(k1)), message("m", later(), key(k2)))
	if _, err := store.Get(patient(t), ref("m")); !errors.Is(err, core.ErrAmbiguous) {
		t.Errorf("get: %v, want %v", err, core.ErrAmbiguous)
	}
	for _, c := range changes() {
		if _, err := c.call(patient(t), store, ref("m")); !errors.Is(err, core.ErrAmbiguous) {
			t.Errorf("%s: %v, want %v", c.name, err, core.ErrAmbiguous)
		}
	}
	for _, k := range []string{k1, k2} {
		if got := get(t, store, refKey("m", k)); string(got.Message.Key) != k || got.State != core.Scheduled {
			t.Errorf("get by key %q: %+v", k, got)
		}
	}
	if _, err := store.Cancel(patient(t), refKey("m", k2)); err != nil {
		t.Fatalf("cancel by key: %v", err)
	}
	if got := get(t, store, ref("m")); string(got.Message.Key) != k1 {
		t.Errorf("get the one that is left: %+v", got)
	}
}

func withoutAnyKey(t *suite) {
	const n = 4
	store, home := t.open(n), core.BucketOf(nil, "m", 4)
	k := keyIn((home+1)%n, n)
	park(t, store, message("m", later(), key(k)), message("m", later()))
	if got := get(t, store, ref("m")); got.Message.Key != nil {
		t.Errorf("get: the message under key %q", got.Message.Key)
	}
	if _, err := store.Cancel(patient(t), ref("m")); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if got := get(t, store, ref("m")); string(got.Message.Key) != k || got.State != core.Scheduled {
		t.Errorf("get the one that is left: %+v", got)
	}
	// One under a key of the same bucket is not what the id alone names.
	park(t, store, message("n", later(), key(keyIn(core.BucketOf(nil, "n", n), n))), message("n", later(), key(keyIn((core.BucketOf(nil, "n", n)+1)%n, n))))
	if _, err := store.Get(patient(t), ref("n")); !errors.Is(err, core.ErrAmbiguous) {
		t.Errorf("get of two under keys: %v, want %v", err, core.ErrAmbiguous)
	}
}

func keyMustMatch(t *suite) {
	store := t.open(1)
	park(t, store, message("keyed", later(), key("k")), message("bare", later()), message("empty", later(), key("")))
	tests := []struct {
		ref  core.Ref
		want error
	}{
		{refKey("keyed", "k"), nil},
		{refKey("keyed", "K"), core.ErrNotFound},
		{refKey("keyed", ""), core.ErrNotFound},
		{refKey("bare", "k"), core.ErrNotFound},
		{refKey("bare", ""), core.ErrNotFound},
		{refKey("empty", ""), nil},
		{ref("empty"), nil},
	}
	for _, test := range tests {
		if _, err := store.Get(patient(t), test.ref); !errors.Is(err, test.want) {
			t.Errorf("get %q by key %q: %v, want %v", test.ref.ID, test.ref.Key, err, test.want)
		}
	}
}

func storedBeforeRemembered(t *suite) {
	const n = 4
	store := t.open(n)
	park(t, store, message("m", later(), key(keyIn(2, n))))
	if _, err := store.Cancel(patient(t), refKey("m", keyIn(2, n))); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	wantState(t, store, "m", core.Cancelled)
	park(t, store, message("m", later(), key(keyIn(1, n))))
	wantState(t, store, "m", core.Scheduled)
	if got := get(t, store, refKey("m", keyIn(2, n))); got.State != core.Cancelled {
		t.Errorf("get by the key of what is remembered: %+v", got)
	}
}

func lookalike(t *suite) {
	const n = 4
	store := t.open(n)
	for b := range n {
		// The form says bucket 0, the key another.
		id := fmt.Sprintf("00%021d", b)
		park(t, store, message(id, later(), key(keyIn(b, n))))
		wantState(t, store, id, core.Scheduled)
	}
	high := "vv" + fmt.Sprintf("%021d", 7) // a bucket that there is not
	park(t, store, message(high, later()))
	wantState(t, store, high, core.Scheduled)
	// What lies where a generated ID says is meant, even if the ID is used again
	// under a key.
	generated := park(t, store, message("", later()))[0].ID
	bucket, _ := core.BucketOfID(generated)
	park(t, store, message(generated, later(), key(keyIn((bucket+1)%n, n))))
	if got := get(t, store, ref(generated)); got.Message.Key != nil {
		t.Errorf("get generated id: the message under key %q", got.Message.Key)
	}
}

// nothingElse is about stores that build names out of what they are given.
func nothingElse(t *suite) {
	const n = 2
	store := t.open(n)
	for i, name := range []string{"0", "1", "{0}", "owner", "orders:0:due", "a\x00b", "*", "a\r\nb"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			id := fmt.Sprint("m", i)
			park(t, store, message(id, later(), key(name)), message(id, later(), key(name), sink(OtherSink)))
			if got := get(t, store, refKey(id, name)); string(got.Message.Key) != name {
				t.Errorf("get by key %q: key %q", name, got.Message.Key)
			}
			if _, err := store.Cancel(patient(t), refKey(id, name)); err != nil {
				t.Errorf("cancel by key %q: %v", name, err)
			}
			if got := get(t, store, core.Ref{ID: id, Sink: OtherSink, Key: []byte(name)}); got.State != core.Scheduled {
				t.Errorf("the other sink's: %+v", got)
			}
		})
	}
}
