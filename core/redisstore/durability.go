package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// durability is the level in force and the command that waits for it.
type durability struct {
	level    string
	replicas int           // for WAIT or WAITAOF; 0: none needed
	waitAOF  bool          // wait for this server's disk, too
	timeout  time.Duration // of the command
}

// choose settles the level for a Redis in this state. A level that it can't
// give is an error, never a silent downgrade.
func (c Config) choose(f health) (durability, error) {
	d := durability{level: c.Durability, timeout: c.DurabilityTimeout}
	if d.level == DurabilityAuto {
		d.level = strongest(f, c.Replicas)
	}
	switch d.level {
	case DurabilityReplicated:
		if f.replicas < c.Replicas {
			return d, fmt.Errorf("durability replicated needs %d replicas, and %d are connected: "+
				"add replicas, or choose another level", c.Replicas, f.replicas)
		}
		d.replicas = c.Replicas
	case DurabilityFsync:
		if !f.aof || !f.always && !f.waitAOF {
			return d, errors.New("durability fsync needs appendonly yes, and either appendfsync always or Redis 7.2 with WAITAOF: " +
				"change the Redis, or choose another level")
		}
		d.waitAOF = !f.always
		d.replicas = min(f.replicas, c.Replicas)
	}
	return d, nil
}

// broken reports why a Redis in this state does not give the level any more,
// though it did when it was chosen. What CONFIG GET does not tell any more is
// taken to be as it was. Replicas count with each answer.
func (d durability) broken(f health) error {
	if d.level == DurabilityFsync && (!f.aof || f.lazy && !d.waitAOF) {
		return errors.New("unsafe Redis: durability is fsync, but appendonly or appendfsync was changed while running:  " +
			"set appendonly yes and appendfsync always, or restart the bridge with another level")
	}
	return nil
}

// strongest is the best level of a Redis in this state that waits for no timer.
// WAITAOF does: where appendfsync is not always, up to a second for each answer.
func strongest(f health, replicas int) string {
	switch {
	case f.aof && f.always:
		return DurabilityFsync
	case f.replicas >= replicas:
		return DurabilityReplicated
	}
	return DurabilityMemory
}

// waits reports whether an answer must wait for more than the script.
func (d durability) waits() bool { return d.waitAOF || d.replicas > 0 }

// command is what waits, on the connection that wrote; nil if nothing must.
func (d durability) command(ctx context.Context) *redis.Cmd {
	ms := d.timeout.Milliseconds()
	switch {
	case d.waitAOF:
		return redis.NewCmd(ctx, "waitaof", 1, d.replicas, ms)
	case d.replicas > 0:
		return redis.NewCmd(ctx, "wait", d.replicas, ms)
	}
	return nil
}

// check reports whether the commands that waited have seen enough.
func (d durability) check(cmds []*redis.Cmd) error {
	for _, cmd := range cmds {
		if err := d.checkOne(cmd); err != nil {
			return err
		}
	}
	return nil
}

func (d durability) checkOne(cmd *redis.Cmd) error {
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("wait for durability %s: %w: %w", d.level, core.ErrUnknown, err)
	}
	local, replicas := int64(1), int64(0)
	switch v := cmd.Val().(type) {
	case int64:
		replicas = v
	case []any: // WAITAOF: local, replicas
		if len(v) == 2 {
			local, _ = v[0].(int64)
			replicas, _ = v[1].(int64)
		}
	}
	if d.waitAOF && local < 1 || replicas < int64(d.replicas) {
		return fmt.Errorf("durability %s was not reached within %s (%d of %d replicas): %w",
			d.level, d.timeout, replicas, d.replicas, core.ErrUnknown)
	}
	return nil
}

// commit runs a call, and waits until what it wrote is durable. The call has its
// own error; the error returned is that of the waiting.
func (s *Store) commit(ctx context.Context, c call) error {
	calls := []call{c}
	ctx, cancel := commandContext(ctx, s.config.timeout+s.durable.timeout, calls)
	defer cancel()
	node, err := nodeOf(ctx, s.client, c.key())
	if err != nil {
		c.SetErr(err)
		return nil
	}
	defer awaitOutcome(calls)
	return s.commitOn(ctx, node, c)
}

// commitOn is commit for calls that all go to node. It does not wait until those with
// an unknown outcome can't take effect any more.
func (s *Store) commitOn(ctx context.Context, node redis.UniversalClient, calls ...call) error {
	if !s.durable.waits() {
		ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
		defer cancel()
		s.send(ctx, s.client, calls, func(context.Context) *redis.Cmd { return nil })
		return nil
	}
	return s.durable.check(s.send(ctx, node, calls, s.durable.command))
}
