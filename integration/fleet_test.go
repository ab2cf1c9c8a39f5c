//go:build unix

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// told is what /v1/instances tells of one.
type told struct {
	Instance, Version, Config string
	Self                      bool
	AgeMS                     int `json:"age_ms"`
	Listeners                 map[string]string
	Sinks                     []struct {
		Sink  string
		Owned int
		Done  struct{ Accepted, Delivered int } `json:"since_start"`
		Last  struct{ Accepted int }            `json:"last_60m"`
	}
}

// TestInstancesSeeEachOther runs two instances: each shows both, and the counts of both.
// One that is killed grows old, and its buckets are seen to move to the other.
func TestInstancesSeeEachOther(t *testing.T) {
	t.Parallel()
	config := fmt.Sprintf(`store: {redis: {url: "%s"}, lease: 1s}
http: {listen: "127.0.0.1:0"}
sinks: {orders: {type: console, config: {format: json}}}
`, servers.Redis(t, servers.RedisOptions{}).URL())
	one, two := serve(t, config, output(t)), serve(t, config, output(t))
	for n := range 6 {
		if to := []*instance{one, two}[n%2]; !to.post(fmt.Sprint("m", n), 0) {
			t.Fatal("not accepted")
		}
	}
	seenBy := func(i *instance) (self, other told) {
		var answer struct{ Instances []told }
		if err := i.get("/v1/instances", &answer); err != nil || len(answer.Instances) != 2 {
			return told{}, told{}
		}
		self, other = answer.Instances[0], answer.Instances[1]
		if other.Self {
			self, other = other, self
		}
		return self, other
	}
	for _, i := range []*instance{one, two} {
		poll.Until(t, time.Minute, "each sees the work of both", func() bool {
			self, other := seenBy(i)
			return self.Self && !other.Self && self.Sinks[0].Done.Accepted == 3 && len(other.Sinks) == 1 && other.Sinks[0].Last.Accepted == 3 &&
				self.Sinks[0].Owned+other.Sinks[0].Owned == 16 && self.Sinks[0].Done.Delivered+other.Sinks[0].Done.Delivered == 6 &&
				self.Config == other.Config && self.Config != "" && self.Version == other.Version && "http://"+self.Listeners["http"] == i.url
		})
	}
	if s := one.stats("orders"); s.Done.Delivered != 6 {
		t.Errorf("both have delivered %d", s.Done.Delivered)
	}
	self, other := seenBy(one)
	var named struct {
		Instances int
		Sinks     []struct {
			Owned int
			Done  struct{ Accepted int } `json:"since_start"`
		}
	}
	if err := one.get("/v1/stats?instance="+other.Instance, &named); err != nil || named.Instances != 1 || named.Sinks[0].Done.Accepted != 3 || named.Sinks[0].Owned != other.Sinks[0].Owned {
		t.Errorf("the other is %+v, %v", named, err)
	}
	two.Kill()
	poll.Until(t, time.Minute, "the killed one grows old", func() bool {
		left, gone := seenBy(one)
		return gone.Instance == other.Instance && gone.AgeMS > 7000 && left.Instance == self.Instance && left.AgeMS == 0 && left.Sinks[0].Owned == 16
	})
	one.stop()
}
