package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

// Each instance announces which formats of records and keys it reads, and hears in
// the same call which one it is to write: lua/format.lua decides. So a newer format is
// written only when every live instance reads it, and an instance that can't write
// what is written does not start.
//
// With that, it publishes its report, see fleet.go. Nobody announces by the clock: what
// is parked does, and Serve, if nobody has of late. An instance that does neither writes
// nothing. When it wakes it announces before it writes. If that fails it continues as it last heard: what it then writes is
// of a format that the others know, and what it reads says its format itself.

const (
	oldestFormat   = recordFormat
	formatsEvery   = 5 * time.Second  // how old the last announcement may be
	formatsAlive   = 30 * time.Second // and how long it counts, or as long as a lease
	withdrawWithin = time.Second
)

// formatFeatures is what each format is for, in the order of the formats. The names
// are recorded in Redis with the format.
func formatFeatures() []string { return []string{"records", "test"} }

// formats is what this instance knows of them.
type formats struct {
	mu    sync.Mutex // held during an announcement, so that who comes meanwhile waits for its answer
	tried time.Time
	seen  atomic.Pointer[Formats] // nil: not announced
	met   atomic.Int64            // the newest of a record, of those that can't be read here
}

// Formats lists the record formats that are stored under a prefix, and the formats that
// each instance reads and writes.
type Formats struct {
	Writes  int // the format written now
	Newest  int // the newest format ever written; such records may still be stored
	Pin     int // upper bound of Writes; 0 is no bound
	Buckets int
	// Instances are those that accepted or delivered in the last half minute.
	Instances []InstanceFormats

	able  bool // this instance can write what is written
	heard time.Time
}

// InstanceFormats are the formats that one instance supports.
type InstanceFormats struct {
	Instance       string
	Oldest, Newest int // that it reads
	Writes         int
}

// agreeOnFormat announces this instance, and records format and number of buckets at
// the first start.
func (s *Store) agreeOnFormat(ctx context.Context) (buckets int, err error) {
	s.formats.tried = time.Now()
	f, err := s.announceFormats(ctx, s.client)
	switch {
	case err != nil:
		return 0, err
	case !f.able:
		return 0, s.tooOld(f)
	case s.config.Buckets != 0 && f.Buckets != s.config.Buckets:
		return 0, fmt.Errorf("the data under prefix %q has %d buckets per sink, but the configuration has %d:  "+
			"set buckets to %d, or use another prefix", s.config.Prefix, f.Buckets, s.config.Buckets, f.Buckets)
	case f.Buckets < 1 || f.Buckets > core.MaxBuckets:
		return 0, fmt.Errorf("%s says that there are %d buckets: it is damaged", s.keys.meta(), f.Buckets)
	}
	return f.Buckets, nil
}

func (s *Store) tooOld(f *Formats) error {
	return fmt.Errorf("the data under prefix %q has format %d, but this version writes formats %d to %d:  "+
		"run the version that wrote it, or, to go back to this one, run `delaybridge store format --pin %d` and leave one "+
		"instance of the newer version running until its messages are drained",
		s.config.Prefix, f.Writes, oldestFormat, s.config.newest, s.config.newest)
}

// announceFormats announces this instance and learns what to write.
func (s *Store) announceFormats(ctx context.Context, client redis.UniversalClient) (*Formats, error) {
	f, err := s.formatCall(ctx, client, s.config.Instance, max(formatsAlive, s.config.Lease))
	if err != nil {
		return nil, err
	}
	f.heard = time.Now()
	if before := s.formats.seen.Swap(f); before != nil && before.Writes != f.Writes {
		s.config.Log.Info("format of new records changed", "format", f.Writes, "before", before.Writes)
	}
	return f, nil
}

// refreshFormats announces this instance if that was not done of late. Who comes
// meanwhile waits, so that nothing is written before it is known in which format.
func (s *Store) refreshFormats(ctx context.Context, client redis.UniversalClient) {
	f := &s.formats
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.tried) < formatsEvery {
		return
	}
	f.tried = time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout/lookShare)
	defer cancel()
	if _, err := s.announceFormats(ctx, client); err != nil {
		s.config.Log.Debug("announce formats", "err", err) // Redis's other calls tell
	}
}

// keepFormats is refreshFormats for who writes. It does not wait for the answer while
// what was heard is not old: one silent server must not hold up the others.
func (s *Store) keepFormats(ctx context.Context, client redis.UniversalClient) {
	switch f := &s.formats; {
	case time.Since(f.seen.Load().heard) > formatsAlive/2:
		s.refreshFormats(ctx, client)
	case f.due():
		go s.refreshFormats(context.WithoutCancel(ctx), client)
	}
}

// due reports whether refreshFormats is to be called, for who must not wait for it.
func (f *formats) due() bool {
	if !f.mu.TryLock() {
		return false
	}
	defer f.mu.Unlock()
	return time.Since(f.tried) >= formatsEvery
}

// outdated is why this instance must not write, if it must not.
func (s *Store) outdated() error {
	if f := s.formats.seen.Load(); !f.able {
		return s.tooOld(f)
	}
	return nil
}

// withdraw says that this instance reads nothing more.
func (s *Store) withdraw() {
	f := &s.formats
	if f.seen.Load() == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = time.Now() // so that nobody announces it once more
	ctx, cancel := context.WithTimeout(context.Background(), withdrawWithin)
	defer cancel()
	if _, err := s.formatCall(ctx, s.client, s.config.Instance, 0); err != nil {
		s.config.Log.Debug("withdraw formats", "err", err) // it is forgotten soon
	}
}

// formatCall runs format.lua; see there.
func (s *Store) formatCall(ctx context.Context, client redis.UniversalClient, instance string, alive time.Duration) (*Formats, error) {
	buckets := s.config.Buckets
	if buckets == 0 {
		buckets = defaultBuckets
	}
	features := strings.Join(formatFeatures()[:min(s.config.newest, testFormat)], ",")
	var report []byte
	if alive > 0 {
		report = s.report()
	}
	c := newCall(ctx, s.scripts.format, []string{s.keys.meta(), s.keys.reports()},
		instance, oldestFormat, s.config.newest, alive.Milliseconds(), buckets, features, report)
	s.run(ctx, client, c)
	reply, err := c.Slice()
	if err == nil && (len(reply) < 5 || len(reply)%2 == 0) {
		err = errReply
	}
	if err != nil {
		return nil, fault("read stored format", err)
	}
	f := &Formats{able: number(reply[0]) == 1, Writes: int(number(reply[1])), Newest: int(number(reply[2])),
		Pin: int(number(reply[3])), Buckets: int(number(reply[4]))}
	for n := 5; n < len(reply); n += 2 {
		one := InstanceFormats{Instance: text(reply[n])}
		if _, err := fmt.Sscanf(text(reply[n+1]), "%d %d %d", &one.Oldest, &one.Newest, &one.Writes); err == nil {
			f.Instances = append(f.Instances, one)
		}
	}
	slices.SortFunc(f.Instances, func(a, b InstanceFormats) int { return strings.Compare(a.Instance, b.Instance) })
	return f, nil
}

// writeFormat puts what is to be parked into the format that is written now.
func (s *Store) writeFormat(load []*pending) {
	if format := s.formats.seen.Load().Writes; format != recordFormat {
		for _, p := range load {
			p.payload = inFormat(p.payload, format)
		}
	}
}

// behind reports whether this instance, which reads up to newest, can't read all that is
// stored.
func (f *formats) behind(newest int) bool {
	return newest < max(f.seen.Load().Newest, int(f.met.Load()))
}

// readElsewhere reports whether some of the instances reads all that is stored: then what
// is stored is left to those. If none does, the others deliver the rest. One that has
// just come counts as a reader until it is known.
func (f *formats) readElsewhere(instances []string) bool {
	seen := f.seen.Load()
	stored := max(seen.Newest, int(f.met.Load()))
	return slices.ContainsFunc(instances, func(name string) bool {
		newest, known := seen.reads(name)
		return !known || newest >= stored
	})
}

// reads is the newest format that an instance reads.
func (f *Formats) reads(instance string) (newest int, known bool) {
	for _, one := range f.Instances {
		if one.Instance == instance {
			return one.Newest, true
		}
	}
	return 0, false
}

// ReadFormats returns the Formats stored under c.Prefix. It opens no store, and so also
// works if Open fails. It returns an error if nothing is stored.
func ReadFormats(ctx context.Context, c Config) (Formats, error) {
	s, err := c.admin()
	if err != nil {
		return Formats{}, err
	}
	defer s.client.Close()
	f, err := s.formatCall(ctx, s.client, "", 0)
	switch {
	case err != nil:
		return Formats{}, err
	case f.Newest == 0:
		return Formats{}, s.nothingStored()
	}
	return *f, nil
}

// PinFormat sets the newest format to write; 0 removes the bound. Instances that accept
// or deliver apply it within 5 s, and report it in Formats. It does not change stored
// records.
func PinFormat(ctx context.Context, c Config, format int) error {
	if format < 0 {
		return errors.New("format must not be negative")
	}
	s, err := c.admin()
	if err != nil {
		return err
	}
	defer s.client.Close()
	call := newCall(ctx, s.scripts.pin, []string{s.keys.meta()}, format)
	s.run(ctx, s.client, call)
	switch stored, err := call.Int(); {
	case err != nil:
		return fault("pin format", err)
	case stored == 0:
		return s.nothingStored()
	}
	return nil
}

// admin is a store that serves for single calls only.
func (c Config) admin() (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("configuration of the Redis store: %w", err)
	}
	c = c.withDefaults()
	return &Store{config: c, client: c.connect(1), scripts: newScripts(), keys: keySpace{prefix: c.Prefix}}, nil
}

func (s *Store) nothingStored() error {
	return fmt.Errorf("nothing is stored under prefix %q yet: no instance has started with it", s.config.Prefix)
}
