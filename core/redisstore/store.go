// Package redisstore is a core.Store on Redis 6.2 or later: one server, one
// behind Sentinel, or a cluster.
//
// Every sink has a fixed number of buckets, and each bucket is a handful of
// keys in one slot: lua/bucket.lua names them. Everything that changes a bucket
// is one script, and each script reads Redis's clock itself; no clock of this
// process decides anything. A bucket has at most one owner at a time, a row in
// Redis with a random token and a rising epoch; take and settle check the
// token, so an instance that was paused and replaced does nothing when it wakes.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Store keeps messages in Redis. Make one with Open; safe for concurrent use.
type Store struct {
	config  Config
	client  redis.UniversalClient
	serving redis.UniversalClient // of takes and settles: no callers, however many, keep them from a connection
	keeping redis.UniversalClient // of leases: no takes, however many, do
	takes   slots
	settles slots
	scripts *scripts
	keys    keySpace
	durable durability
	watch   watch
	parker  parker
	owned   ownedBuckets
	ids     *core.IDs
	numbers numbers

	loopMu    sync.Mutex
	loop      *loop // while something is served
	loopUsers int
}

var (
	_ core.Store         = (*Store)(nil)
	_ core.Inspector     = (*Store)(nil)
	_ core.HealthChecker = (*Store)(nil)
)

// Open connects to Redis and makes sure that it is fit: that it may not evict
// what is parked, that it writes to disk (unless AllowVolatile), that it can
// give the durability asked for, and that what it holds has this format and
// number of buckets. Every error says what to do about it.
func Open(ctx context.Context, config Config) (*Store, error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("configuration of the Redis store: %w", err)
	}
	config = config.withDefaults()
	s := &Store{config: config, client: config.connect(poolSize), serving: config.connect(2 * slotsPerServer), keeping: config.connect(keepingSize),
		scripts: newScripts(), ids: core.NewIDs()}
	s.parker.store, s.parker.most, s.watch.every = s, maxWaitingBytes, watchEvery
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	facts, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if err := facts.checkSafe(s.config.AllowVolatile); err != nil {
		return err
	}
	s.watch.saw(nil)
	if s.durable, err = s.config.choose(facts); err != nil {
		return err
	}
	buckets, err := s.agreeOnFormat(ctx)
	if err != nil {
		return err
	}
	s.keys = keySpace{prefix: s.config.Prefix, buckets: buckets}
	return s.scripts.load(ctx, s.client)
}

// Close lets go of Redis. Every Serve must have returned.
func (s *Store) Close() error {
	if err := errors.Join(s.client.Close(), s.serving.Close(), s.keeping.Close()); err != nil {
		return fmt.Errorf("close Redis client: %w", err)
	}
	return nil
}

// Durability is the level at which Park answers: memory, replicated or fsync.
func (s *Store) Durability() string { return s.durable.level }

// Health asks Redis for a sign of life and whether it has become unsafe. What it
// finds holds for Park, too.
func (s *Store) Health(ctx context.Context) error { return s.look(ctx) }

// The format of what is stored. It is raised by a change that an older
// instance could not read.
const format = "1"

// agreeOnFormat records the format and the number of buckets at the first
// start, and afterwards compares.
func (s *Store) agreeOnFormat(ctx context.Context) (buckets int, err error) {
	key := keySpace{prefix: s.config.Prefix}.meta()
	wanted := s.config.Buckets
	if wanted == 0 {
		wanted = defaultBuckets
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	pipe.HSetNX(ctx, key, "format", format)
	pipe.HSetNX(ctx, key, "buckets", wanted)
	meta := pipe.HGetAll(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, fmt.Errorf("read format of what is stored: %w", err)
	}
	var found struct {
		Format  string `redis:"format"`
		Buckets int    `redis:"buckets"`
	}
	if err := meta.Scan(&found); err != nil {
		return 0, fmt.Errorf("read format of what is stored in %s: %w", key, err)
	}
	switch {
	case found.Format != format:
		return 0, fmt.Errorf("what is stored under prefix %q has format %s, and this version reads format %s: "+
			"run the version that wrote it until it is drained, or use another prefix", s.config.Prefix, found.Format, format)
	case s.config.Buckets != 0 && found.Buckets != s.config.Buckets:
		return 0, fmt.Errorf("what is stored under prefix %q has %d buckets a sink, and the configuration says %d: "+
			"set buckets to %d, or use another prefix", s.config.Prefix, found.Buckets, s.config.Buckets, found.Buckets)
	case found.Buckets < 1 || found.Buckets > core.MaxBuckets:
		return 0, fmt.Errorf("%s says that there are %d buckets: it is damaged", key, found.Buckets)
	}
	return found.Buckets, nil
}

// place decides the bucket of a message and makes its ID if it has none. With
// neither ID nor key it may go anywhere.
func (s *Store) place(m *core.Message, anywhere int) int {
	if !m.Generated {
		return core.BucketOf(m.Key, m.ID, s.keys.buckets)
	}
	bucket := anywhere
	if m.Key != nil {
		bucket = core.BucketOf(m.Key, "", s.keys.buckets)
	}
	m.ID = s.ids.New(bucket, time.Now())
	return bucket
}
