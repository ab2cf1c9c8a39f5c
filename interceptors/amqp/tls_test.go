//go:build unix

package amqpsource

import (
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/servers"
)

func TestTLS(t *testing.T) {
	r := newRig(t)
	in := r.queue(".delayed", nil)
	ca, key := servers.Certificate(t, time.Now().Add(time.Hour))
	addr := servers.TLSFront(t, r.Addr(), ca, key, "")
	r.publish(in, numbered(0, 1)...)
	config := func(name string) map[string]any {
		return map[string]any{"urls": []string{"amqps://guest:guest@" + addr + "/"}, "queues": []string{in}, "tls": map[string]any{"ca": ca, "server_name": name}}
	}
	stranger := r.run(r.source(config("other.test")))
	right := r.run(r.source(config("broker.test")))
	r.store.Await(t, 1)
	for _, src := range []*running{right, stranger} {
		if err := src.Stop(); err != nil {
			t.Error(err)
		}
	}
	if stranger.Report().Parked != 0 || right.Report().Parked != 1 {
		t.Errorf("%+v, %+v", stranger.Report(), right.Report())
	}
}
