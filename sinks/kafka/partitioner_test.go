package kafka

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/core"
)

// TestMurmur2 has the vectors of Kafka's own tests of its Java client.
func TestMurmur2(t *testing.T) {
	numbers := make([]int, 100_003)
	for n := range numbers {
		numbers[n] = n
	}
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		for _, n := range []int{1, 7, 1 << 16, 100_003} { // the latter two tell nearly all bits
			if got, want := keyed([]byte(key), numbers[:n]), (want&0x7fffffff)%int32(n); got != want {
				t.Errorf("keyed(%q) of %d partitions = %d, want %d", key, n, got, want)
			}
		}
	}
}

// TestPartitions holds which messages of some batches share a partition.
func TestPartitions(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		f.leaders["t"] = []int{1, 0, 2, 1}
		where := func(m *core.Message) int {
			t.Helper()
			m.ID, m.Topic, m.Attempt = "id", "t", 1
			f.log = map[string][]string{}
			if err := sink.Deliver(t.Context(), []*core.Message{m}); err != nil {
				t.Fatal(err)
			}
			for n := range 4 {
				if len(f.stored("t", n)) == 1 {
					return n
				}
			}
			return -1
		}
		var keyless []int
		for range 6 {
			keyless = append(keyless, where(&core.Message{}))
		}
		if diff := cmp.Diff([]int{2, 2, 3, 0, 2, 2}, keyless); diff != "" {
			t.Errorf("without a key, in turn where there is a leader (-want +got):\n%s", diff)
		}
		f.leaders["t"] = []int{1, 1, 2, 1}
		time.Sleep(2 * time.Second)
		for range 2 {
			if got, want := where(&core.Message{Key: []byte{}}), int(keyed([]byte{}, []int{0, 1, 2, 3})); got != want {
				t.Errorf("empty key: partition %d, want %d", got, want)
			}
			if got := where(&core.Message{Key: []byte("any"), Options: map[string]string{"partition": "3"}}); got != 3 {
				t.Errorf("option partition 3: partition %d", got)
			}
		}
		err := sink.Deliver(t.Context(), []*core.Message{{ID: "id", Topic: "t", Options: map[string]string{"partition": "4"}}})
		if core.ClassOf(err) != core.Permanent && each(1, err)[0] != core.Permanent {
			t.Errorf("option partition 4 of 4: %v", err)
		}
	})
}
