package rocketmqsource

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/interceptors/source"
	"github.com/delaybridge/delaybridge/internal/brokers/rocketmq"
)

// member is this instance in the consumer group, while Run lasts. Brokers know
// the members by their heartbeats, and each member finds out for itself which
// queues are its own.
type member struct {
	*Source
	id       string
	pool     *pool
	progress *progress
	rejecter *rejecter               // nil: there is no reject topic
	end      context.CancelCauseFunc // ends the source
	moved    chan struct{}           // holds a token when members have come or gone
	version  int64                   // of the subscription

	reading  map[place]*reading
	troubles source.Troubles

	mu    sync.Mutex
	cause error // why the source can't continue
}

// reading is a queue that is ours.
type reading struct {
	*queue
	stop  context.CancelFunc
	ended chan struct{}
}

const (
	// heartbeatEvery is also how often queues are shared out again. Brokers drop
	// a member after two minutes of silence, or when its connection ends.
	heartbeatEvery = 10 * time.Second
	retryEvery     = time.Second
	leaveTimeout   = 3 * time.Second
	// maxAsking bounds requests under way of one kind.
	maxAsking = 16
)

func newMember(i *Source, end context.CancelCauseFunc) *member {
	m := &member{Source: i, end: end, moved: make(chan struct{}, 1), version: time.Now().UnixMilli(),
		progress: newProgress(), reading: make(map[place]*reading), troubles: source.Troubles{Of: i.parker, Log: i.log.With("source", i.name)}}
	host, _ := os.Hostname() // for people only
	m.id = fmt.Sprintf("%s@%d#%s#%016x", host, os.Getpid(), i.name, rand.Uint64())
	m.pool = newPool(&i.settings.cluster, func(code int) {
		if code == rocketmq.RequestMembersMoved {
			poke(m.moved)
		}
	})
	if i.settings.rejectTopic != "" {
		m.rejecter = &rejecter{pool: m.pool, topic: i.settings.rejectTopic, group: i.settings.group}
	}
	return m
}

// run reads the queues that are ours until ctx ends, and returns when nothing
// reads any more.
func (m *member) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := heartbeatEvery
		if err := m.share(ctx); err == nil {
			m.troubles.Over()
		} else if ctx.Err() == nil {
			m.troubles.Report("can't join the consumer group", err)
			pause = retryEvery
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-m.moved:
		case <-timer.C:
		}
		timer.Stop()
	}
	m.keep(ctx, nil)
}

// share finds out which queues are ours, and reads these. Of a topic that can't
// be looked up, it reads on what it has.
func (m *member) share(ctx context.Context) error {
	found := make([]*rocketmq.Route, len(m.settings.topics))
	failed := askAll(len(found), func(n int) (err error) {
		found[n], err = m.pool.route(ctx, m.settings.topics[n])
		return err
	})
	routes := make(map[string]*rocketmq.Route)
	for n, topic := range m.settings.topics {
		if found[n] != nil {
			routes[topic] = found[n]
		}
	}
	if err := m.heartbeat(ctx, routes); err != nil {
		failed = err
	}
	queues := make([][]place, len(m.settings.topics))
	err := askAll(len(queues), func(n int) (err error) {
		topic := m.settings.topics[n]
		queues[n], err = m.oursOf(ctx, topic, routes[topic])
		return err
	})
	if err != nil {
		failed = err
	}
	ours := slices.Concat(queues...)
	if ctx.Err() == nil {
		m.keep(ctx, ours)
		m.begin(ctx, ours)
		m.commitAgain()
	}
	return failed
}

func (m *member) oursOf(ctx context.Context, topic string, r *rocketmq.Route) ([]place, error) {
	if r == nil {
		return m.readOf(topic), nil
	}
	queues := queuesOf(r, topic, rocketmq.PermRead)
	members, err := m.members(ctx, queues)
	if err != nil {
		return m.readOf(topic), fmt.Errorf("list the members of group %s: %w", m.settings.group, err)
	}
	return allot(queues, members, m.id), nil
}

func (m *member) readOf(topic string) (queues []place) {
	for p := range m.reading {
		if p.topic == topic {
			queues = append(queues, p)
		}
	}
	return queues
}

// heartbeat tells each broker of our topics that we are there.
func (m *member) heartbeat(ctx context.Context, routes map[string]*rocketmq.Route) error {
	body, err := json.Marshal(m.introduction())
	if err != nil {
		return fmt.Errorf("encode a heartbeat: %w", err)
	}
	brokers := brokersOf(routes)
	return askAll(len(brokers), func(n int) error {
		if _, err := m.pool.askBroker(ctx, brokers[n], rocketmq.Command{Code: rocketmq.RequestHeartbeat, Body: body}); err != nil {
			return fmt.Errorf("send a heartbeat to broker %s: %w", brokers[n], err)
		}
		return nil
	})
}

// askAll calls ask for 0 to n-1, some at once, so that one that gets no answer holds up
// few. It returns one of their errors.
func askAll(n int, ask func(n int) error) error {
	var asking sync.WaitGroup
	errs, free := make([]error, n), make(chan struct{}, maxAsking)
	for at := range n {
		free <- struct{}{}
		asking.Go(func() {
			errs[at] = ask(at)
			<-free
		})
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func brokersOf(routes map[string]*rocketmq.Route) (brokers []string) {
	for topic, r := range routes {
		for _, q := range queuesOf(r, topic, rocketmq.PermRead) {
			if !slices.Contains(brokers, q.broker) {
				brokers = append(brokers, q.broker)
			}
		}
	}
	slices.Sort(brokers)
	return brokers
}

func (m *member) introduction() map[string]any {
	var subscriptions []any
	for _, topic := range m.settings.topics {
		subscriptions = append(subscriptions, map[string]any{
			"topic": m.settings.cluster.OnWire(topic), "subString": m.settings.expression(), "subVersion": m.version,
			"tagsSet": []string{}, "codeSet": []int{}, "classFilterMode": false, "expressionType": "TAG"})
	}
	return map[string]any{"clientID": m.id, "producerDataSet": []any{}, "consumerDataSet": []any{map[string]any{
		"groupName": m.settings.group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
		"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": subscriptions, "unitMode": false}}}
}

// expression is how a broker is told which tags are wanted.
func (s *settings) expression() string {
	if len(s.tags) == 0 {
		return "*"
	}
	return strings.Join(s.tags, " || ")
}

// members returns the IDs of all members, sorted, as the first broker knows
// them that answers.
func (m *member) members(ctx context.Context, queues []place) ([]string, error) {
	var failed error
	asked := ""
	for _, q := range queues {
		if q.broker == asked {
			continue
		}
		asked = q.broker
		r, err := m.pool.askBroker(ctx, asked, rocketmq.Command{Code: rocketmq.RequestMembers, Fields: map[string]string{"consumerGroup": m.settings.group}})
		if err != nil {
			failed = err
			continue
		}
		var list struct {
			IDs []string `json:"consumerIdList"`
		}
		if err := json.Unmarshal(r.Body, &list); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		slices.Sort(list.IDs)
		return list.IDs, nil
	}
	return nil, failed
}

// allot returns the queues of one member: a run of them, as RocketMQ's clients
// share them out. All members come to a result that fits together if they know
// of the same queues and members; while they do not, a queue may be read twice.
func allot(queues []place, members []string, id string) []place {
	at := slices.Index(members, id)
	if at < 0 {
		return nil
	}
	each, more := len(queues)/len(members), len(queues)%len(members)
	first := at*each + min(at, more)
	last := first + each
	if at < more {
		last++
	}
	return queues[first:last]
}

// keep stops to read all but queues, and waits until that has ended. If ctx has,
// the last commit is leave's.
func (m *member) keep(ctx context.Context, queues []place) {
	var gone []*reading
	for p, r := range m.reading {
		if !slices.Contains(queues, p) {
			r.stop()
			gone = append(gone, r)
			delete(m.reading, p)
		}
	}
	for _, r := range gone {
		<-r.ended
	}
	if len(gone) == 0 {
		return
	}
	m.changed()
	if ctx.Err() == nil {
		m.commitGone(ctx, gone)
	}
}

// begin reads those of queues that are not read yet.
func (m *member) begin(ctx context.Context, queues []place) {
	before := len(m.reading)
	for _, p := range queues {
		if m.reading[p] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		r := &reading{queue: newQueue(m, p), stop: stop, ended: make(chan struct{})}
		m.reading[p] = r
		go func() {
			defer close(r.ended)
			if err := r.run(ctx); err != nil {
				m.fail(err)
			}
		}()
	}
	if len(m.reading) > before {
		m.changed()
	}
}

func (m *member) changed() {
	var now []*queue
	for _, r := range m.reading {
		now = append(now, r.queue)
	}
	m.assigned.Set(now)
	m.log.LogAttrs(context.Background(), slog.LevelInfo, "source has its queues", slog.String("source", m.name),
		slog.String("group", m.settings.group), slog.Int("queues", len(now)))
}

// fail ends the source.
func (m *member) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil {
		m.cause = err
	}
	m.end(err)
}

func (m *member) fatal() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cause
}

// leave commits what is left and tells the brokers, so that others need not wait
// for our queues. If that fails, messages are read again and known by their IDs.
func (m *member) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if open := m.commitOnce(ctx, m.progress.take()); len(open) > 0 {
		m.log.Warn("last commit failed, its messages will be read again", "source", m.name, "queues", len(open))
	}
	fields := map[string]string{"clientID": m.id, "consumerGroup": m.settings.group}
	var leaving sync.WaitGroup
	for _, broker := range m.pool.known() {
		leaving.Go(func() {
			if _, err := m.pool.askBroker(ctx, broker, rocketmq.Command{Code: rocketmq.RequestLeave, Fields: fields}); err != nil {
				m.log.Debug("could not unregister from the broker", "source", m.name, "broker", broker, "err", err)
			}
		})
	}
	leaving.Wait()
}
