// Package redisstore is a core.Store on Redis 6.2 or later: one server, one
// behind Sentinel, or a cluster.
//
// Every sink has a fixed number of buckets. The keys of a bucket are in one slot;
// lua/bucket.lua lists them. Every change of a bucket is one script, which reads the
// clock of Redis; the clock of this process decides nothing. A bucket has at most one
// owner at a time: a row in Redis with a random token, which take and settle check. So
// an instance that was paused and replaced can't change the bucket when it resumes.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Store keeps messages in Redis. Create it with Open. It is safe for concurrent use.
type Store struct {
	config  Config
	client  redis.UniversalClient
	serving redis.UniversalClient // of takes and settles: no callers, however many, keep them from a connection
	keeping redis.UniversalClient // of leases: no takes, however many, do
	takes   slots
	settles slots
	failing slots // of calls about messages that fail
	scripts *scripts
	keys    keySpace
	durable durability
	// lookEvery is how often a server is asked whether it is safe to park there.
	lookEvery time.Duration
	formats   formats
	tell      atomic.Pointer[func() []byte] // see Announce; nil: nothing
	parker    parker
	clocks    serverClocks
	owned     ownedBuckets
	ids       *core.IDs
	numbers   numbers
	highest   sync.Map // by sink, the highest priority that Stats has met
	summary   core.LogSummary

	lookedForUnsent time.Time // Unsent's
	unsentBytes     atomic.Int64

	silentSinks atomic.Int64 // those whose last heartbeat failed

	loopMu    sync.Mutex
	loop      *loop // while something is served
	loopUsers int
}

var (
	_ core.Store         = (*Store)(nil)
	_ core.Inspector     = (*Store)(nil)
	_ core.Fleet         = (*Store)(nil)
	_ core.HealthChecker = (*Store)(nil)
)

// Open connects to Redis and checks that Redis does not evict parked messages, that it
// has an append-only file (unless AllowVolatile), that it can reach the configured
// durability, that this version can write the stored format, and that the number of
// buckets is the recorded one. Every error names the fix.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("configuration of the Redis store: %w", err)
	}
	config = config.withDefaults()
	s := &Store{config: config, client: config.connect(poolSize), serving: config.connect(2*callsAtOnce + failingAtOnce), keeping: config.connect(keepingSize),
		takes: slots{most: callsAtOnce}, settles: slots{most: callsAtOnce}, failing: slots{most: failingAtOnce, rest: restShare},
		scripts: newScripts(), ids: core.NewIDs()}
	s.parker.store, s.lookEvery = s, checkHealthEvery
	s.keys.events, s.owned.news = config.Final != nil, make(chan struct{}, 1)
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	health, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := health.checkSafe(s.config.AllowVolatile); err != nil {
		return err
	}
	if s.config.Durability == DurabilityAuto && health.aof && !health.always && !health.lazy {
		s.config.Log.Warn("appendfsync can't be read because CONFIG GET is refused, so durability auto does not choose fsync:  " +
			"allow config|get to the user of Redis, or name the level")
	}
	if s.durable, err = s.config.choose(health); err != nil {
		return err
	}
	s.parker.bound(s.durable)
	s.keys.prefix = s.config.Prefix
	if s.keys.buckets, err = s.agreeOnFormat(ctx); err != nil {
		return err
	}
	return s.scripts.load(ctx, s.client)
}

// Close announces to the other instances that this one has stopped, for at most a
// second, and closes the connections. Every Serve must have returned.
func (s *Store) Close() error {
	s.summary.Flush()
	s.withdraw()
	if err := errors.Join(s.client.Close(), s.serving.Close(), s.keeping.Close()); err != nil {
		return fmt.Errorf("close Redis client: %w", err)
	}
	return nil
}

// Durability returns the level at which Park accepts: memory, replicated or fsync.
func (s *Store) Durability() string { return s.durable.level }

// Health returns an error if a server does not respond or has become unsafe. The result
// also applies to Park.
func (s *Store) Health(ctx context.Context) error {
	found, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	s.parker.saw(s.unsafe(found))
	s.refreshFormats(ctx, s.client)
	return cmp.Or(found.checkSafe(s.config.AllowVolatile), s.durable.broken(found), s.outdated())
}
