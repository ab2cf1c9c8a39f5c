package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

const (
	// maxUnsent is how many bytes of lines are read of a bucket at once, but for the last
	// ones, and bucketsAtOnce of how many buckets.
	maxUnsent     = 256 << 10
	bucketsAtOnce = 16
	// lookForUnsent is how often buckets are looked at in which this instance has told
	// nothing: others may have cancelled there.
	lookForUnsent = 5 * time.Second
)

// line returns what Config.Final tells about a message that had the sequence number seq,
// with its end; empty if there is nothing to tell.
func (s *Store) line(bucket int, seq string, m *core.Message, o core.Outcome) []byte {
	if s.config.Final == nil {
		return nil
	}
	id := m.Sink + ":" + strconv.Itoa(bucket) + ":" + hex.EncodeToString([]byte(seq)) + ":" + string(o.State)
	return append(s.config.Final(id, m, o), '\n')
}

// maxTold is how many bytes of lines may wait in a bucket.
func (s *Store) maxTold() int64 { return s.config.MaxUnsent / int64(s.keys.buckets) }

// unsent is what was read of the lines of one bucket.
type unsent struct {
	bucket *bucket
	lost   int64
	read   []any // id and size of each entry
	size   int
}

// Unsent waits until there are lines of Config.Final in buckets that this instance owns. It
// returns some of them, of each bucket the oldest first, and how many could not be kept
// since. They are returned again, if not here then by the next owner, until sent was called.
// Calls must not run at the same time.
func (s *Store) Unsent(ctx context.Context) (lines [][]byte, lost int, sent func(context.Context) error, err error) {
	for {
		s.LookForUnsent(ctx)
		var found []unsent
		if found, lines, err = s.readUnsent(ctx); err != nil {
			return nil, 0, nil, err
		}
		for _, one := range found {
			lost += int(one.lost)
		}
		if len(found) > 0 {
			return lines, lost, func(ctx context.Context) error { return s.removeSent(ctx, found) }, nil
		}
		select {
		case <-s.owned.news:
		case <-time.After(lookForUnsent):
		case <-ctx.Done():
			return nil, 0, nil, ctx.Err()
		}
	}
}

// readUnsent reads the buckets that may have lines. An error means that nothing was read.
func (s *Store) readUnsent(ctx context.Context) (found []unsent, lines [][]byte, err error) {
	buckets := s.owned.told(bucketsAtOnce)
	calls := make([]call, len(buckets))
	for n, b := range buckets {
		calls[n] = newCall(ctx, s.scripts.unsent, b.keys, maxUnsent)
	}
	s.run(ctx, s.client, calls...)
	for n, c := range calls {
		reply, failed := c.Slice()
		if failed != nil || len(reply)%2 != 1 {
			s.owned.tell(buckets[n])
			err = fault("read unsent lines", cmp.Or(failed, errReply))
			continue
		}
		one := unsent{bucket: buckets[n], lost: number(reply[0])}
		for at := 1; at < len(reply); at += 2 {
			entry := text(reply[at+1])
			one.read, one.size = append(one.read, reply[at], len(entry)), one.size+len(entry)
			lines = append(lines, bytes.Split([]byte(entry[:len(entry)-1]), []byte("\n"))...)
		}
		if len(one.read) > 0 || one.lost > 0 {
			found = append(found, one)
		}
	}
	if len(found) > 0 {
		err = nil // the others are read again
	}
	return found, lines, err
}

// removeSent removes lines that are elsewhere.
func (s *Store) removeSent(ctx context.Context, found []unsent) (err error) {
	calls := make([]call, len(found))
	for n, one := range found {
		calls[n] = newCall(ctx, s.scripts.sent, one.bucket.keys, append([]any{one.lost, len(one.read) / 2}, one.read...)...)
	}
	s.run(ctx, s.client, calls...)
	for n, c := range calls {
		if failed := c.Err(); failed != nil || found[n].size >= maxUnsent {
			s.owned.tell(found[n].bucket)
			err = cmp.Or(err, fault("remove sent lines", failed))
		}
	}
	return err
}

// LookForUnsent finds the owned buckets in which lines wait, and how many bytes they are,
// unless it has done so within five seconds. Unsent does it, too; do not call both at the
// same time.
func (s *Store) LookForUnsent(ctx context.Context) {
	if time.Since(s.lookedForUnsent) < lookForUnsent {
		return
	}
	s.lookedForUnsent = time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	buckets := s.owned.list()
	pipe := s.client.Pipeline()
	waiting := make([]*redis.SliceCmd, len(buckets))
	for n, b := range buckets {
		waiting[n] = pipe.HMGet(ctx, b.keys[0], "told", "untold")
	}
	pipe.Exec(ctx) // each command has its own error
	var bytes int64
	for n, c := range waiting {
		if v := c.Val(); len(v) == 2 && (v[0] != nil || v[1] != nil) {
			told, _ := strconv.ParseInt(text(v[0]), 10, 64)
			bytes += told
			s.owned.tell(buckets[n])
		}
	}
	s.unsentBytes.Store(bytes)
}

// UnsentBytes returns how many bytes of lines wait in the buckets that this instance owns,
// as LookForUnsent has last seen it.
func (s *Store) UnsentBytes() int64 { return s.unsentBytes.Load() }
