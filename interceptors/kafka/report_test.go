package kafkasource

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// refusing answers all that is asked with an error, until that is nil.
type refusing struct{ err atomic.Pointer[error] }

func (r *refusing) RoundTrip(_ context.Context, _ net.Addr, request kafka.Request) (kafka.Response, error) {
	if err := r.err.Load(); err != nil {
		return nil, *err
	}
	switch request.(type) {
	case *metadata.Request:
		return &metadata.Response{Topics: []metadata.ResponseTopic{{Name: "t", Partitions: make([]metadata.ResponsePartition, 1)}}}, nil
	case *offsetfetch.Request:
		return &offsetfetch.Response{}, nil
	}
	return &offsetcommit.Response{}, nil
}

// TestReportTellsOfGroup: what keeps a source from its topics, its offsets and its
// commits is in its report until it works.
func TestReportTellsOfGroup(t *testing.T) {
	for trouble, work := range map[string]func(context.Context, *session){
		"can't look up the topics":      func(ctx context.Context, s *session) { s.awaitTopics(ctx) },
		"can't get the group's offsets": func(ctx context.Context, s *session) { s.recall(ctx) },
		"can't commit": func(ctx context.Context, s *session) {
			s.progress.mark("t", 0, position{})
			s.commit(ctx)
		},
	} {
		t.Run(trouble, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broker, broken := new(refusing), errors.New("broken")
				broker.err.Store(&broken)
				i := &Source{name: "src", parker: &source.Parker{Name: "src"}, log: slog.New(slog.DiscardHandler)}
				i.settings.topics, i.settings.RequestTimeout = []string{"t"}, time.Second
				m := newMember(i, &kafka.Client{Addr: kafka.TCP("a:1"), Transport: broker}, nil)
				generation := &kafka.Generation{GroupID: "g", Assignments: map[string][]kafka.PartitionAssignment{"t": {{ID: 0}}}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go work(ctx, newSession(&membership{member: m}, generation))
				synctest.Wait()
				if got := i.Report(); !strings.HasPrefix(got.Trouble, trouble) || !strings.Contains(got.Trouble, "broken") || !got.Since.Equal(time.Now()) {
					t.Errorf("report %+v", got)
				}
				broker.err.Store(nil)
				time.Sleep(10 * time.Second)
				if got := i.Report(); got.Trouble != "" {
					t.Errorf("report %+v, though it works", got)
				}
			})
		})
	}
}
