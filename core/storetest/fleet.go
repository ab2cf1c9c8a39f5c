package storetest

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

func fleetRules() []rule {
	return []rule{
		{"what an instance tells is published again and again, unless it is too long", announcedAgain},
		{"all live instances are listed, by all", announcedTogether},
	}
}

// announce has store tell what, and serves a sink with it until the test ends.
func announce(t *suite, store core.Store, what func() string) (name string) {
	t.Helper()
	fleet, ok := store.(core.Fleet)
	if !ok {
		t.Skip("the store does not tell its instances about each other")
	}
	name = fleet.Announce(func() []byte { return []byte(what()) })
	own(t, store, Sink, 0)
	return name
}

// announced is what the instances tell, by name.
func announced(t reporter, store core.Store) map[string]core.Announcement {
	t.Helper()
	list, err := store.(core.Fleet).Announced(patient(t))
	if err != nil {
		t.Fatalf("announced: %v", err)
	}
	byName := make(map[string]core.Announcement)
	for _, a := range list {
		byName[a.Instance] = a
	}
	if len(byName) != len(list) {
		t.Errorf("an instance is listed twice: %v", list)
	}
	return byName
}

// awaitReport waits until an instance is listed with this report.
func awaitReport(t *suite, store core.Store, name, want string) core.Announcement {
	t.Helper()
	return awaitTold(t, store, name, func(a core.Announcement) bool { return string(a.Report) == want })
}

// awaitTold waits until what an instance tells is as wanted.
func awaitTold(t *suite, store core.Store, name string, want func(core.Announcement) bool) core.Announcement {
	t.Helper()
	var found core.Announcement
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if found = announced(t, store)[name]; want(found) {
			return found
		}
	}
	t.Fatalf("%s tells %.100q, of an age of %s", name, found.Report, found.Age)
	return found
}

func announcedAgain(t *suite) {
	store := t.Open(t.T, Config{Buckets: 1, HandsOver: true})
	report := "{\"a\": 1}\n\x00\xff \u00e4"
	report += strings.Repeat("x", core.MaxReport-len(report))
	var tooLong atomic.Bool
	name := announce(t, store, func() string {
		if tooLong.Load() {
			return report + "x"
		}
		return report
	})
	if found := awaitReport(t, store, name, report); name == "" || found.Age < 0 || found.Age > patience {
		t.Errorf("%q is listed with an age of %s", name, found.Age)
	}
	tooLong.Store(true)
	if gone := awaitTold(t, store, name, func(a core.Announcement) bool { return a.Age < 0 }); gone.Instance != name || len(gone.Report) > 0 {
		t.Errorf("%q is listed with %d bytes", gone.Instance, len(gone.Report))
	}
	if all := announced(t, store); len(all) != 1 {
		t.Errorf("%d are listed", len(all))
	}
}

func announcedTogether(t *suite) {
	first, second := t.openTwo(2)
	if first == second {
		t.Skip("the store has one instance only")
	}
	one := announce(t, first, func() string { return "one" })
	two := second.(core.Fleet).Announce(func() []byte { return []byte("two") })
	o := own(t, second, Sink, 0)
	for _, store := range []core.Store{first, second} {
		awaitReport(t, store, one, "one")
		awaitReport(t, store, two, "two")
	}
	o.stop()
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if all := announced(t, first); len(all) != 1 || all[one].Age < 0 {
		t.Errorf("after the end of the second: %v", all)
	}
}
