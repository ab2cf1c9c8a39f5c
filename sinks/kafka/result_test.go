package kafka

import (
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/core"
)

// TestClassOfEachCode has the broker answer every code that Kafka has to a lone
// record, and looks at what the engine gets to see.
func TestClassOfEachCode(t *testing.T) {
	classes := map[core.Class][]kafka.Error{
		core.Retry:        {14, 15, 16, 89},
		core.TopicBlocked: {3, 5, 6, 8, 9, 19, 29, 56, 72, 74, 75, 78, 100, 103},
		core.Permanent:    {4, 10, 17, 18, 32, 42, 43, 44, 87},
		core.Blocked:      {21, 31, 33, 34, 35, 54, 58, 76},
	}
	want := make(map[kafka.Error]core.Class)
	for class, codes := range classes {
		for _, code := range codes {
			want[code] = class
		}
	}
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		for code := kafka.Error(-1); code < 130; code++ {
			if code == 0 {
				continue
			}
			class, ok := want[code]
			if !ok {
				class = core.Unknown
			}
			f.set(func() { f.answer = func(fakeProduce) fakeAnswer { return fakeAnswer{code: code} } })
			_, err := deliverTimed(t, sink, messages("t", "x"))
			if got := each(1, err)[0]; got != class {
				t.Errorf("code %d: class %s, want %s: %v", code, got, class, err)
			}
			wantWhole := class == core.Blocked || class == core.Retry
			if isWhole(err) != wantWhole {
				t.Errorf("code %d: an error of the whole sink: %t, want %t: %v", code, isWhole(err), wantWhole, err)
			}
		}
	})
}

// TestErrorAfterWriting: the leader has the records, but was deposed before its
// replicas confirmed them. The next leader may have them, so they are not sent
// again behind the engine's back.
func TestErrorAfterWriting(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fakeCluster, sink *Sink) {
		for _, code := range []kafka.Error{kafka.NotLeaderForPartition, kafka.UnknownTopicOrPartition, kafka.KafkaStorageError} {
			f.set(func() {
				f.log = map[string][]string{}
				f.answer = func(fakeProduce) fakeAnswer { return fakeAnswer{code: code, written: true} }
			})
			_, err := deliverTimed(t, sink, messages("t", "x"))
			if got := f.stored("t", 0); isWhole(err) || core.ClassOf(err) != core.Unknown || len(got) != 1 {
				t.Errorf("%v: got %v, stored %d times, want class unknown, once", code, err, len(got))
			}
		}
	})
}
