package kafkasource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/segmentio/kafka-go"

	"github.com/delaybridge/delaybridge/interceptors/source"
)

// member is this instance in the consumer group, over all its joins and leaves.
// It is for one goroutine; a session may read while it is under way.
type member struct {
	*Source
	client  *kafka.Client
	dial    dialFunc
	brokers []string // the first that takes a connection is asked where the group is
	joining source.Troubles
	missing []string    // topics that the log was told of
	found   topicCounts // the fewest partitions that were ever counted
}

func newMember(i *Source, client *kafka.Client, dial dialFunc) *member {
	return &member{Source: i, client: client, dial: dial, brokers: slices.Clone(i.settings.Seeds), found: make(topicCounts),
		joining: source.Troubles{Of: i.parker, Log: i.log.With("source", i.name, "group", i.settings.group)}}
}

var errNotJoined = errors.New("the group could not be joined")

// run joins the group again and again, until ctx ends; nil then.
func (m *member) run(ctx context.Context) error {
	for {
		counted := m.awaitTopics(ctx)
		if ctx.Err() != nil {
			return nil
		}
		err := m.join(ctx, counted)
		switch {
		case errors.Is(err, errNotJoined):
			// One that takes connections and never answers keeps the library
			// from asking the others.
			m.brokers = append(m.brokers[1:], m.brokers[0])
			source.Sleep(ctx, joinBackoff)
		case errors.Is(err, errLogLost):
			source.Sleep(ctx, settle)
		case errors.Is(err, errTopicsChanged):
		default:
			return err
		}
	}
}

// join reads the topics of counted that exist as a member of the group, until
// ctx ends; nil then. After errNotJoined, errTopicsChanged and errLogLost it may
// be joined again.
func (m *member) join(ctx context.Context, counted topicCounts) error {
	shared := new(shares)
	group, err := kafka.NewConsumerGroup(m.groupConfig(m.dial, m.brokers, counted.existing(m.settings.topics), shared.balancers()))
	if err != nil {
		return fmt.Errorf("join group %s: %w", m.settings.group, err)
	}
	// The group must be closed while a generation is under way: it would join
	// the next one otherwise, and keep the others waiting.
	closing := sync.OnceFunc(func() { group.Close() })
	defer closing()
	defer context.AfterFunc(ctx, closing)()
	joined := &membership{member: m, counted: counted, shares: shared}
	return joined.serveAll(group, closing)
}

// membership is the time from a join to a leave.
type membership struct {
	*member
	counted topicCounts // before it has joined
	shares  *shares
}

// serveAll works through the generations of the group until it is closed.
func (m *membership) serveAll(group *kafka.ConsumerGroup, leave func()) error {
	for {
		generation, err := group.Next(context.Background())
		switch {
		case errors.Is(err, kafka.ErrGroupClosed):
			return nil
		case errors.Is(err, kafka.RebalanceInProgress): // we are a member still
			m.joining.Report("can't join the consumer group", err)
			continue
		case err != nil:
			m.joining.Report("can't join the consumer group", err)
			return errNotJoined
		}
		m.joining.Over()
		if err := m.serve(generation, leave); err != nil {
			return err
		}
	}
}

// serve works through one generation of the group and returns when it is over.
// An error means that the group must be left; leave is then called.
func (m *membership) serve(generation *kafka.Generation, leave func()) error {
	done := make(chan error, 1)
	generation.Start(func(ended context.Context) {
		s := newSession(m, generation)
		err := s.run(ended)
		for topic := range s.progress.gone {
			m.found[topic] = 0 // what has its name came to be later
		}
		if err != nil {
			go leave() // which waits for this function
			<-ended.Done()
		}
		done <- err
	})
	return <-done
}

// shares reports what was shared out in the present generation if this member has
// done it, as the leader of the group.
type shares struct {
	counts atomic.Pointer[topicCounts] // nil: another member is the leader
}

// balancers are those of the library, as other versions of the bridge have them:
// all members of a group must have one in common.
func (s *shares) balancers() []kafka.GroupBalancer {
	return []kafka.GroupBalancer{
		watchedBalancer{kafka.RangeGroupBalancer{}, s},
		watchedBalancer{kafka.RoundRobinGroupBalancer{}, s},
	}
}

// of returns how many partitions of topics were shared out; known is false if
// another member has done it.
func (s *shares) of(topics []string) (counts topicCounts, known bool) {
	all := s.counts.Load()
	if all == nil {
		return nil, false
	}
	counts = make(topicCounts, len(topics))
	for _, topic := range topics {
		counts[topic] = (*all)[topic]
	}
	return counts, true
}

// watchedBalancer keeps shares up to date.
type watchedBalancer struct {
	kafka.GroupBalancer
	shares *shares
}

// UserData begins a join: the library asks for it before each, and each begins a
// generation of which nothing is known yet.
func (b watchedBalancer) UserData() ([]byte, error) {
	b.shares.counts.Store(nil)
	return b.GroupBalancer.UserData()
}

// AssignGroups is asked of the leader only. It may be given no partition at all:
// the library does not tell if it could not learn of a single topic.
func (b watchedBalancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	counts := make(topicCounts)
	for _, p := range partitions {
		counts[p.Topic]++
	}
	b.shares.counts.Store(&counts)
	return b.GroupBalancer.AssignGroups(members, partitions)
}
