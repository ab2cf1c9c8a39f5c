package auth

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestFloodForgives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flood
		spend := func(remote string) bool { return f.Spend(remote, time.Now()) }
		for range FloodBurst {
			if !spend("192.0.2.1:1") {
				t.Fatal("refused within the burst")
			}
		}
		if spend("192.0.2.1:2") || spend("[::ffff:192.0.2.1]:3") {
			t.Error("another port is another remote")
		}
		if !spend("192.0.2.2:1") {
			t.Error("another remote pays too")
		}
		for range FloodBurst {
			spend("[2001:db8::1]:1")
		}
		if spend("[2001:db8::2]:1") {
			t.Error("one network has many allowances")
		}
		time.Sleep(time.Second) // virtual
		for range FloodPerSecond {
			if !spend("192.0.2.1:1") {
				t.Error("refused after a second")
			}
		}
		if spend("192.0.2.1:1") {
			t.Error("more than what a second allows")
		}
		for n := range 3 * floodRemotes {
			spend(fmt.Sprintf("10.%d.%d.%d:1", n>>16, n>>8&255, n&255))
		}
		if len(f.remotes) > floodRemotes {
			t.Errorf("%d remotes are remembered", len(f.remotes))
		}
	})
}
