package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// health is what matters about a Redis; of several masters, the weakest counts.
type health struct {
	versions []string // of each master
	policies []string // maxmemory_policy of each master
	aof      bool
	replicas int  // connected to each master at least
	always   bool // appendfsync is known to be always
	lazy     bool // appendfsync is known to be something else
	waitAOF  bool // WAITAOF is known
}

// inspect reads the health from every master. It needs no more than INFO; what
// CONFIG GET refuses to tell is taken as not given.
func (s *Store) inspect(ctx context.Context) (health, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	all := health{aof: true, always: true, waitAOF: true, replicas: 1 << 30}
	var mu sync.Mutex
	err := eachMaster(ctx, s.client, func(ctx context.Context, c redis.Cmdable) error {
		f, err := inspectMaster(ctx, c)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		all.versions, all.policies = append(all.versions, f.versions...), append(all.policies, f.policies...)
		all.lazy = all.lazy || f.lazy
		all.aof, all.always, all.waitAOF = all.aof && f.aof, all.always && f.always, all.waitAOF && f.waitAOF
		all.replicas = min(all.replicas, f.replicas)
		return nil
	})
	if err != nil {
		return health{}, fault("query Redis at "+strings.Join(s.config.Addrs, ", "), err)
	}
	return all, nil
}

func inspectMaster(ctx context.Context, c redis.Cmdable) (health, error) {
	info, err := c.Info(ctx).Result()
	if err != nil {
		return health{}, err
	}
	values := parseInfo(info)
	f := health{versions: []string{values["redis_version"]}, policies: []string{values["maxmemory_policy"]}, aof: values["aof_enabled"] == "1"}
	f.replicas, _ = strconv.Atoi(values["connected_slaves"])
	f.waitAOF = atLeast(values["redis_version"], 7, 2)
	if sync, err := c.ConfigGet(ctx, "appendfsync").Result(); err == nil {
		f.always = sync["appendfsync"] == "always"
		f.lazy = !f.always
	}
	return f, nil
}

func parseInfo(info string) map[string]string {
	values := make(map[string]string, 200)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values
}

func atLeast(version string, major, minor int) bool {
	var haveMajor, haveMinor int
	if _, err := fmt.Sscanf(version, "%d.%d", &haveMajor, &haveMinor); err != nil {
		return false
	}
	return haveMajor > major || haveMajor == major && haveMinor >= minor
}

// checkSafe refuses a Redis that may drop what is parked. The policies
// volatile-* are harmless: no key of ours has a time to live.
func (f health) checkSafe(allowVolatile bool) error {
	for _, policy := range f.policies {
		if strings.HasPrefix(policy, "allkeys-") {
			return fmt.Errorf("unsafe Redis: maxmemory-policy is %s, which evicts parked messages when memory is short: "+
				"set it to noeviction", policy)
		}
	}
	if !f.aof && !allowVolatile {
		return errors.New("unsafe Redis: append-only file is off, so a restart loses parked messages: " +
			"set appendonly yes in Redis, or allow_volatile: true if you accept the loss")
	}
	return nil
}

// checkHealthEvery is how old the last look at Redis may be when something is parked.
const checkHealthEvery = 5 * time.Second

// healthCheck remembers whether one server was safe when it was last looked at. Nobody looks
// by the clock: what is parked there looks first, if nobody has done so of late.
type healthCheck struct {
	mu     sync.Mutex
	looked time.Time
	unsafe error // nil: safe
}

// due reports whether the caller is to look now. Others need not meanwhile.
func (w *healthCheck) due(every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < every {
		return false
	}
	w.looked = time.Now()
	return true
}

func (w *healthCheck) saw(unsafe error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.unsafe = time.Now(), unsafe
}

func (w *healthCheck) seen() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsafe
}

// lookAt asks the server of a batch whether it is safe and gives the level of
// durability. What can't be asked leaves what was seen before as it is. Whoever allowed
// a volatile Redis has allowed one that is unsafe, but not a promise that does not hold.
func (s *Store) lookAt(ctx context.Context, w *healthCheck, b *parkBatch) {
	node, err := nodeOf(ctx, s.client, s.keys.owner(b.last.sink, b.last.bucket))
	if err != nil {
		return
	}
	found, err := inspectMaster(ctx, node)
	if err != nil {
		return // a Redis that is unreachable says so to what is parked next
	}
	w.saw(s.unsafe(found))
}

// unsafe is why nothing is to be parked on a server in this state.
func (s *Store) unsafe(f health) error {
	if broken := s.durable.broken(f); broken != nil || s.config.AllowVolatile {
		return broken
	}
	return f.checkSafe(false)
}

// lookShare, of a command's time, leaves what is parked time enough, where a server
// does not answer.
const lookShare = 6

// refusal is why nothing of b is to be parked now: nil, or core.ErrUnavailable as
// Redis may lose what is parked or as others write a format that is not known here.
func (s *Store) refusal(ctx context.Context, b *parkBatch) error {
	w := &b.queue.check
	if w.due(s.lookEvery) {
		ctx, cancel := context.WithTimeout(ctx, s.config.timeout/lookShare)
		defer cancel()
		s.lookAt(ctx, w, b)
	}
	s.keepFormats(ctx, s.client)
	if err := cmp.Or(w.seen(), s.outdated()); err != nil {
		return fmt.Errorf("park: %w: %w", core.ErrUnavailable, err)
	}
	return nil
}
