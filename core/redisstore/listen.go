package redisstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscription is the one that all sinks share. The client library connects again
// by itself, but not to a server that just keeps silent; so the loop sends itself
// something now and then, and subscribes again elsewhere if that does not come back.
type subscription struct {
	pubsub   *redis.PubSub
	notes    <-chan any
	channels []string  // that it has
	busy     bool      // it is being changed
	changed  bool      // sinks have come or gone meanwhile
	probed   time.Time // when the loop last sent itself something
	missing  bool      // and it has not come back yet
}

// close may wait for the client library to connect.
func (s subscription) close() {
	if s.pubsub == nil {
		return
	}
	s.pubsub.Close()
	if s.notes != nil {
		for range s.notes { // else who passes them on may wait for a reader
		}
	}
}

// channelsOf are those where an instance hears of messages that came before the
// first in one of the sink's buckets, and where the sink's instances hear of each other.
func (l *loop) channelsOf(sink string) []string {
	return []string{l.keys.wakeChannel(l.config.Instance, sink), l.keys.memberChannel(sink)}
}

// echoChannel is where the loop hears itself.
func (l *loop) echoChannel() string { return l.keys.wakeChannel(l.config.Instance, "") }

// listen has the subscription follow the sinks that are served.
func (l *loop) listen(ctx context.Context) {
	if l.heard.changed = true; l.heard.busy {
		return
	}
	l.heard.busy, l.heard.changed = true, false
	wanted := []string{l.echoChannel()}
	for name := range l.channel {
		wanted = append(wanted, name)
	}
	had, pubsub := l.heard.channels, l.heard.pubsub
	l.heard.channels = wanted
	l.background.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, l.config.timeout)
		defer cancel()
		pubsub = l.subscribe(bounded, pubsub, had, wanted)
		if !l.post(func() { l.listens(ctx, pubsub) }) {
			_ = pubsub.Close() // nothing is served any more
		}
	})
}

// subscribe returns a subscription to the channels that are wanted: the one that is
// there, with those that it has not, or a new one. What fails now is done by the client
// library when it connects again.
func (l *loop) subscribe(ctx context.Context, pubsub *redis.PubSub, had, wanted []string) *redis.PubSub {
	if pubsub == nil {
		return l.keeping.Subscribe(ctx, wanted...)
	}
	except := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
	}
	var err error
	if more := except(wanted, had); len(more) > 0 {
		err = pubsub.Subscribe(ctx, more...)
	}
	if gone := except(had, wanted); err == nil && len(gone) > 0 {
		err = pubsub.Unsubscribe(ctx, gone...)
	}
	if err != nil {
		l.config.Log.Debug("subscribe", "err", err)
	}
	return pubsub
}

// listens takes a subscription that has been changed.
func (l *loop) listens(ctx context.Context, pubsub *redis.PubSub) {
	if l.heard.pubsub == nil {
		l.heard.pubsub, l.heard.notes = pubsub, pubsub.ChannelWithSubscriptions()
	}
	l.heard.busy, l.heard.missing = false, false
	if l.heard.changed && len(l.sinks) > 0 {
		l.listen(ctx)
	}
}

// probe sends the loop itself something, unless it still misses what it sent before:
// then the subscription is dead, and another one is begun.
func (l *loop) probe(ctx context.Context, now time.Time) {
	s := &l.heard
	if s.busy || now.Sub(s.probed) < l.leaseTime/renewalsPerLease {
		return
	}
	if s.probed = now; s.missing {
		l.config.Log.Warn("subscription does not respond and is restarted")
		l.background.Go(s.close)
		*s = subscription{probed: now}
		l.listen(ctx)
		return
	}
	s.missing = true
	l.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, l.leaseTime/renewalsPerLease)
		defer cancel()
		if err := l.echo(ctx); err != nil { // that proves nothing
			l.post(func() { s.missing = false })
		}
	})
}

// echo asks one server to publish to the loop itself: as a command to a whole cluster,
// the client library would first have some server list its commands, for 5 s whatever
// ctx says.
func (l *loop) echo(ctx context.Context) error {
	node, err := nodeOf(ctx, l.keeping, l.echoChannel())
	if err == nil {
		err = node.Publish(ctx, l.echoChannel(), "").Err()
	}
	return err
}

// hear takes what another instance said, or that the line to Redis is back, so
// that something may have gone unheard.
func (l *loop) hear(note any) {
	switch n := note.(type) {
	case *redis.Subscription:
		if v := l.channel[n.Channel]; v != nil && n.Kind == "subscribe" {
			v.owned.wakeAll(v.sink)
			v.beat()
		}
	case *redis.Message:
		v := l.channel[n.Channel]
		switch {
		case n.Channel == l.echoChannel():
			l.heard.missing = false
		case v == nil:
		case n.Channel == l.keys.memberChannel(v.sink):
			if n.Payload != l.config.Instance {
				v.beat()
			}
		default:
			if number, err := strconv.Atoi(n.Payload); err == nil {
				v.owned.wake(v.sink, number)
			}
		}
	}
}

// ownedBuckets finds the buckets that this process owns, to wake them.
type ownedBuckets struct {
	mu      sync.Mutex
	all     map[string]map[int]*bucket
	telling map[*bucket]bool // those that may have unsent lines
	news    chan struct{}    // has one signal if there are some
}

func (o *ownedBuckets) set(sink string, number int, b *bucket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[string]map[int]*bucket)
	}
	if o.all[sink] == nil {
		o.all[sink] = make(map[int]*bucket)
	}
	o.all[sink][number] = b
}

func (o *ownedBuckets) remove(sink string, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all[sink], number)
}

func (o *ownedBuckets) wake(sink string, number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.all[sink][number]; b != nil {
		b.signal()
	}
}

func (o *ownedBuckets) wakeAll(sink string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.all[sink] {
		b.signal()
	}
}

// tell notes that a bucket may have unsent lines.
func (o *ownedBuckets) tell(b *bucket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.telling == nil {
		o.telling = make(map[*bucket]bool)
	}
	o.telling[b] = true
	o.signal()
}

func (o *ownedBuckets) signal() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// told returns up to most buckets that may have unsent lines, and forgets that of them.
func (o *ownedBuckets) told(most int) (buckets []*bucket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range o.telling {
		if len(buckets) == most {
			o.signal()
			break
		}
		buckets = append(buckets, b)
		delete(o.telling, b)
	}
	return buckets
}

func (o *ownedBuckets) list() (buckets []*bucket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range o.all {
		buckets = slices.AppendSeq(buckets, maps.Values(of))
	}
	return buckets
}
