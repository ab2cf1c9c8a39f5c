//go:build unix

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestKilledInstanceLosesNothing runs two instances on one Redis and kills one
// of them again and again, at random, while messages come in and go out.
func TestKilledInstanceLosesNothing(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	config := fmt.Sprintf(`store: {redis: {url: "%s"}, lease: 1s}
http: {listen: "127.0.0.1:0"}
sinks: {orders: {type: console, config: {format: json}}}
`, redis.URL())
	path := filepath.Join(t.TempDir(), "delivered")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	steady, victim := serve(t, config, out), serve(t, config, out)

	const rounds, perRound = 6, 500
	var mu sync.Mutex
	accepted := make(map[string]bool)
	for round := range rounds {
		var posts sync.WaitGroup
		for n := range perRound {
			posts.Go(func() {
				id := fmt.Sprintf("r%d-%d", round, n)
				to := steady
				if n%2 == 1 {
					to = victim
				}
				if to.post(id, time.Duration(rand.IntN(1500))*time.Millisecond) {
					mu.Lock()
					defer mu.Unlock()
					accepted[id] = true
				}
			})
			if n%50 == 49 {
				posts.Wait()
			}
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond) // the moment of the kill is random
		victim.Kill()
		posts.Wait()
		victim = serve(t, config, out)
	}
	seen := awaitAll(t, path, accepted)
	steady.stop()
	victim.stop()
	checkDeliveries(t, accepted, seen, rounds)
}

// awaitAll waits until every accepted message has been delivered.
func awaitAll(t *testing.T, path string, accepted map[string]bool) (seen map[string][]delivery) {
	t.Helper()
	poll.Until(t, 3*time.Minute, "all that was accepted is delivered", func() bool {
		seen = deliveries(t, path)
		for id := range accepted {
			if len(seen[id]) == 0 {
				return false
			}
		}
		return true
	})
	return seen
}

func checkDeliveries(t *testing.T, accepted map[string]bool, seen map[string][]delivery, kills int) {
	t.Helper()
	repeated := 0
	for id, all := range seen {
		first := 0
		for _, d := range all {
			if d.Time.Before(d.DeliverAt) {
				t.Errorf("%s was delivered at %s, before it was due at %s", id, d.Time, d.DeliverAt)
			}
			if d.Attempt == 1 {
				first++
			}
		}
		if first > 1 { // which of two lines stands first is chance
			t.Errorf("%s was delivered again, but not as what a crash cut off: %d times as attempt 1", id, first)
		}
		repeated += len(all) - 1
	}
	if len(accepted) < 1000 {
		t.Errorf("only %d messages were accepted; the run says nothing", len(accepted))
	}
	t.Logf("%d accepted, %d delivered, %d repeats in %d kills", len(accepted), len(seen), repeated, kills)
}
