package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// call is one script call that is sent once: a reply that was lost must not
// make the client library run the script again behind our back.
type call struct {
	*redis.Cmd
	script   *script
	validity *validity // nil: it changes nothing
}

// validity is the time within which a call can take effect.
type validity struct {
	// sent and holds are the last two arguments: microseconds of Redis's clock.
	sent, holds int64
	// until is when it is over, by our own clock.
	until time.Time
}

// NoRetry is asked by the client library.
func (call) NoRetry() bool { return true }

// key is the first, which says where in a cluster the call goes.
func (c call) key() string {
	key, _ := c.Args()[3].(string)
	return key
}

func newCall(ctx context.Context, s *script, keys []string, args ...any) call {
	all := make([]any, 0, 5+len(keys)+len(args))
	all = append(all, "evalsha", s.sha, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	c := call{script: s}
	all = append(all, args...)
	if s.changes {
		c.validity = new(validity)
		all = append(all, &c.validity.sent, &c.validity.holds)
	}
	c.Cmd = redis.NewCmd(ctx, all...)
	c.SetFirstKeyPos(3)
	return c
}

// validShare, of a command's time, is for how long a call may take effect after it
// was sent. What arrives later is refused, and sent again while there is time.
const validShare = 3

// outcome is how long the caller of a call must wait until its outcome can't change
// any more: nothing, if there was a reply, or it was not sent.
func (c call) outcome() time.Duration {
	if _, replied := errors.AsType[redis.Error](c.Err()); replied {
		return 0
	}
	if c.validity == nil || c.Err() == nil || !errors.Is(faultClass(c.Err()), core.ErrUnknown) {
		return 0
	}
	return time.Until(c.validity.until)
}

// run sends calls in one pipeline on client and returns when each has its result,
// after the timeout of a command at the latest. The end of ctx cuts off what only
// reads; what changes something is done, refused, or can't take effect any more.
func (s *Store) run(ctx context.Context, client redis.UniversalClient, calls ...call) {
	ctx, cancel := commandContext(ctx, s.config.timeout, calls)
	defer cancel()
	s.send(ctx, client, calls, func(context.Context) *redis.Cmd { return nil })
	awaitOutcome(calls)
}

// commandContext bounds calls by timeout, and by the deadline of ctx. Its end does
// not cut off calls that change something.
func commandContext(ctx context.Context, timeout time.Duration, calls []call) (context.Context, context.CancelFunc) {
	bound, bounded := ctx.Deadline()
	for _, c := range calls {
		if c.validity != nil {
			ctx = context.WithoutCancel(ctx)
			break
		}
	}
	if latest := time.Now().Add(timeout); !bounded || latest.Before(bound) {
		bound = latest
	}
	return context.WithDeadline(ctx, bound)
}

// awaitOutcome returns when no call can take effect any more.
func awaitOutcome(calls []call) {
	var longest time.Duration
	for _, c := range calls {
		longest = max(longest, c.outcome())
	}
	if longest > 0 {
		time.Sleep(longest)
	}
}

// resends is how often calls are sent again that Redis has refused unseen: because
// their script was missing, twice if there was a failover, they came late, or their
// slot is being moved. For that it is about a quarter of a second in all.
const resends = 8

// send sends calls in one pipeline, with the command that last makes, if any, behind
// them. It sends only those again that Redis has refused unseen. It returns the
// commands behind those that it has not. All calls that change something go to one
// server, unless a slot is moved meanwhile.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, calls []call, last func(context.Context) *redis.Cmd) []*redis.Cmd {
	if s.config.Called != nil {
		defer s.config.tell(calls, time.Now())
	}
	return s.sendUntilSeen(ctx, client, calls, last)
}

// tell tells Config.Called of calls that have ended.
func (c *Config) tell(calls []call, began time.Time) {
	took := time.Since(began)
	for _, one := range calls {
		var class error
		if err := one.Err(); err != nil {
			class = faultClass(err)
		}
		c.Called(one.script.name, took, class)
	}
}

func (s *Store) sendUntilSeen(ctx context.Context, client redis.UniversalClient, calls []call, last func(context.Context) *redis.Cmd) []*redis.Cmd {
	var behind []*redis.Cmd
	for try := 0; ; try++ {
		clock, sent := s.stamp(ctx, calls), time.Now()
		pipe := client.Pipeline()
		for _, c := range calls {
			pipe.Process(ctx, c)
		}
		wait := last(ctx)
		if wait != nil {
			pipe.Process(ctx, call{Cmd: wait})
		}
		pipe.Exec(ctx) // each call has its own error
		missing, late, moving := refused(calls, "NOSCRIPT"), refused(calls, "LATE"), refused(calls, "TRYAGAIN", "ASK ", "MOVED")
		again := slices.Concat(missing, late, moving)
		if wait != nil && len(again) < len(calls) {
			behind = append(behind, wait)
		}
		if len(again) == 0 || try == resends || ctx.Err() != nil {
			return behind
		}
		if len(missing) > 0 {
			if err := s.scripts.load(ctx, client); err != nil {
				setErr(missing, err)
				return behind
			}
		}
		if len(late) > 0 {
			clock.observe(lateTime(late[0]), sent, time.Now())
			if try > 0 { // what was settled within this very millisecond, see park.lua
				time.Sleep(time.Millisecond)
			}
		}
		if len(moving) > 0 {
			client = s.follow(ctx, client, moving, try)
		}
		calls = again
		setErr(calls, nil)
	}
}

// follow waits a little, longer with each try, for the end of the move of a slot, and
// returns where to send the calls then. The client library follows a slot by itself,
// but not where calls are sent to one server.
func (s *Store) follow(ctx context.Context, client redis.UniversalClient, moving []call, try int) redis.UniversalClient {
	time.Sleep(time.Millisecond << try)
	cluster, ok := s.client.(*redis.ClusterClient)
	moved := refused(moving, "MOVED")
	if _, one := client.(*redis.Client); !ok || !one || len(moved) == 0 {
		return client
	}
	cluster.ReloadState(ctx) // which is there for the next try
	if node, err := nodeOf(ctx, cluster, moved[0].key()); err == nil {
		return node
	}
	return client
}

func setErr(calls []call, err error) {
	for _, c := range calls {
		c.SetErr(err)
	}
}

// stamp writes into calls for how long they hold from now, and returns the clock of
// their server.
func (s *Store) stamp(ctx context.Context, calls []call) *serverClock {
	var clock *serverClock
	var now validity
	for _, c := range calls {
		if c.validity == nil {
			continue
		}
		if clock == nil {
			clock = s.clocks.of(ctx, s.client, c.key())
			holds := s.config.timeout / validShare
			if deadline, ok := ctx.Deadline(); ok {
				holds = min(holds, time.Until(deadline))
			}
			now = validity{sent: clock.earliest(), holds: holds.Microseconds(), until: time.Now().Add(holds)}
		}
		*c.validity = now
	}
	return clock
}

// refused are the calls that Redis has refused with one of these words.
func refused(calls []call, words ...string) []call {
	var out []call
	for _, c := range calls {
		if err := c.Err(); err != nil && hasPrefix(err.Error(), words) {
			out = append(out, c)
		}
	}
	return out
}

// lateTime is the time on Redis's clock that a refusal of deadline.lua tells.
func lateTime(c call) time.Time {
	us, _ := strconv.ParseInt(strings.TrimPrefix(c.Err().Error(), "LATE "), 10, 64)
	return time.UnixMicro(us)
}

// nodeOf returns the client of the one server that holds key. Waiting counts
// the writes of its own connection only, so both must go to one server in one
// pipeline.
func nodeOf(ctx context.Context, client redis.UniversalClient, key string) (redis.UniversalClient, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return client, nil
	}
	return cluster.MasterForKey(ctx, key)
}

// part is the calls of one server, with their positions among all.
type part struct {
	node  redis.UniversalClient // nil: it could not be found out, and the calls have an error
	at    []int
	calls []call
}

// eachMaster calls do for each server that takes writes, for several at the same time.
func eachMaster(ctx context.Context, client redis.UniversalClient, do func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return do(ctx, c) })
	}
	return do(ctx, client)
}

// byServer runs do for the calls of each server at the same time, and returns when
// all have returned. The client library would send them in one pipeline, too, but
// then a server that does not answer spoils what the others have answered.
func byServer(ctx context.Context, client redis.UniversalClient, calls []call, do func(*part)) {
	var parts []*part
	for at, c := range calls {
		node, err := nodeOf(ctx, client, c.key())
		if err != nil {
			c.SetErr(err)
			node = nil
		}
		n := slices.IndexFunc(parts, func(p *part) bool { return p.node == node })
		if n < 0 {
			n, parts = len(parts), append(parts, &part{node: node})
		}
		parts[n].at, parts[n].calls = append(parts[n].at, at), append(parts[n].calls, c)
	}
	if len(parts) == 1 {
		do(parts[0])
		return
	}
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() { do(p) })
	}
	running.Wait()
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

func millis(v any) time.Time { return time.UnixMilli(number(v)) }

func millisText(v any) time.Time {
	var ms int64
	for _, c := range text(v) {
		if c < '0' || c > '9' {
			break
		}
		ms = ms*10 + int64(c-'0')
	}
	return time.UnixMilli(ms)
}
