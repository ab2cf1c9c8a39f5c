package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/delaybridge/delaybridge/core"
)

var errNoInstance = errors.New("no instance runs")

// diagnosis collects what is found out about a Redis.
type diagnosis struct {
	*Store
	found []core.Finding
}

// Diagnose looks at Redis for an operator: version, eviction, durability, clock, rights,
// and memory with how fast messages for these sinks fill it. It opens no store, and so
// also works if Open fails. It changes nothing, and returns soon after ctx has ended.
func Diagnose(ctx context.Context, c Config, sinks []string) []core.Finding {
	s, err := c.admin()
	if err != nil {
		return []core.Finding{{Level: core.FindingProblem, About: "configuration", Text: err.Error(), Fix: "correct store"}}
	}
	defer s.client.Close()
	d := &diagnosis{Store: s}
	health, err := s.inspect(ctx)
	if err != nil {
		d.add("connection", core.FindingProblem, err.Error(), "start Redis, or correct store.redis: address, user, password or tls")
		return d.found
	}
	d.health(health)
	d.clock(ctx)
	d.rights(ctx)
	d.memory(ctx, sinks)
	return d.found
}

func (d *diagnosis) add(about, level, text, fix string) {
	d.found = append(d.found, core.Finding{Level: level, About: about, Text: text, Fix: fix})
}

func (d *diagnosis) health(h health) {
	for _, version := range h.versions {
		if atLeast(version, 6, 2) {
			d.add("version", core.FindingOK, version, "")
		} else {
			d.add("version", core.FindingProblem, version, "use Redis 6.2 or later")
		}
	}
	switch {
	case slices.ContainsFunc(h.policies, func(policy string) bool { return policy != "noeviction" }):
		level := core.FindingWarning // no key of ours has a time to live
		if (health{policies: h.policies, aof: true}).checkSafe(false) != nil {
			level = core.FindingProblem
		}
		d.add("eviction", level, "maxmemory-policy "+strings.Join(h.policies, ", "), "set maxmemory-policy noeviction in Redis")
	default:
		d.add("eviction", core.FindingOK, "maxmemory-policy noeviction", "")
	}
	d.persistence(h)
	if level, err := d.config.choose(h); err != nil {
		d.add("durability", core.FindingProblem, err.Error(), "see docs/redis.md#durability")
	} else {
		d.add("durability", core.FindingOK, fmt.Sprintf("%s, with %d replicas connected", level.level, h.replicas), "")
	}
}

func (d *diagnosis) persistence(h health) {
	const fix = "set appendonly yes in Redis"
	switch {
	case !h.aof && d.config.AllowVolatile:
		d.add("append-only file", core.FindingWarning, "off, as allow_volatile allows: a restart of Redis loses everything", fix)
	case !h.aof:
		d.add("append-only file", core.FindingProblem, "off: a restart of Redis loses everything", fix)
	case h.always:
		d.add("append-only file", core.FindingOK, "on, appendfsync always", "")
	case h.lazy:
		d.add("append-only file", core.FindingOK, "on, appendfsync not always: a crash of the machine can lose what is not yet on disk", "")
	default:
		d.add("append-only file", core.FindingWarning, "on, appendfsync is not known, as CONFIG GET is refused: durability auto does not choose fsync", "allow config|get, or set durability")
	}
}

// clockBound is by how much Redis's clock may differ from that of this machine.
const clockBound = 500 * time.Millisecond

func (d *diagnosis) clock(ctx context.Context) {
	switch offset, err := d.ClockOffset(ctx); {
	case err != nil:
		d.add("clock", core.FindingProblem, err.Error(), "")
	case offset.Abs() > clockBound:
		d.add("clock", core.FindingWarning, fmt.Sprintf("is %s ahead of that of this machine", offset.Round(time.Millisecond)),
			"synchronize both by NTP; Redis's clock decides when messages are due")
	default:
		d.add("clock", core.FindingOK, fmt.Sprintf("differs by %s from that of this machine", offset.Abs().Round(time.Millisecond)), "")
	}
}

// rights tries the commands that the bridge needs on every master.
func (d *diagnosis) rights(ctx context.Context) {
	var mu sync.Mutex
	var refused []string
	deny := func(command string) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(refused, command) {
			refused = append(refused, command)
		}
	}
	missing := d.keys.prefix + ":doctor-" + strings.ToLower(rand.Text()[:8])
	err := eachMaster(ctx, d.client, func(ctx context.Context, c redis.Cmdable) error {
		tried := c.Pipeline()
		for _, command := range harmless(missing, d.config.Final != nil) {
			tried.Do(ctx, command...)
		}
		commands, _ := tried.Exec(ctx) // each has its error
		for _, one := range commands {
			if redis.IsPermissionError(one.Err()) {
				deny(strings.ToUpper(one.Name()))
			}
		}
		return ctx.Err()
	})
	subscribed := d.client.Subscribe(ctx, missing)
	if _, err := subscribed.Receive(ctx); redis.IsPermissionError(err) {
		deny("SUBSCRIBE")
	}
	subscribed.Close()
	switch {
	case err != nil:
		d.add("rights", core.FindingProblem, err.Error(), "")
	case len(refused) > 0:
		d.add("rights", core.FindingProblem, "the user may not "+strings.Join(refused, ", "), "allow what docs/redis.md lists, on keys and channels that begin with "+d.keys.prefix+":")
	default:
		d.add("rights", core.FindingOK, "the user may do what is needed", "")
	}
}

// harmless are the commands of docs/redis.md but HSETNX, which has no form without effect,
// so that they change nothing: the key is missing, and where that does not do the
// arguments are wrong, which Redis sees after it has checked the rights. Those for streams
// are needed for events only.
func harmless(missing string, events bool) [][]any {
	commands := [][]any{{"PING"}, {"TIME"}, {"SCRIPT", "LOAD", "return 1"}, {"EVALSHA", strings.Repeat("0", 40), 0},
		{"HSET", missing, "a", 1, "odd"}, {"HINCRBY", missing, "a", "no number"}, {"HGET", missing, "a"}, {"HMGET", missing, "a"}, {"HDEL", missing, "a"},
		{"ZADD", missing, "XX", 1, "m"}, {"ZCOUNT", missing, 0, 1}, {"ZRANGE", missing, 0, 0}, {"ZRANGEBYSCORE", missing, 0, 1},
		{"ZREMRANGEBYSCORE", missing, 0, 1}, {"ZREMRANGEBYRANK", missing, 0, -1},
		{"PUBLISH", missing, ""}, {"WAIT", 0, 1}, {"WAITAOF", 0, 0, 1}}
	if events {
		commands = append(commands, []any{"XADD", missing, "NOMKSTREAM", "*", "n", 1}, []any{"XLEN", missing}, []any{"XRANGE", missing, "-", "+"}, []any{"XDEL", missing, "0-1"})
	}
	for _, name := range []string{"HGETALL", "HLEN", "EXISTS", "ZCARD"} {
		commands = append(commands, []any{name, missing})
	}
	for _, name := range []string{"ZREM", "ZSCORE", "ZMSCORE", "ZRANK"} {
		commands = append(commands, []any{name, missing, "m"})
	}
	return commands
}

const (
	// fullSoon is a warning, as are less than this share of the limit.
	fullSoon    = 24 * time.Hour
	leastShare  = 0.1
	bytesPerMiB = 1 << 20
	// leastForMean is how many messages make a mean size: below, what else is in Redis
	// counts for more.
	leastForMean = 1000
)

func (d *diagnosis) memory(ctx context.Context, sinks []string) {
	m, err := d.Memory(ctx)
	switch {
	case err != nil:
		d.add("memory", core.FindingProblem, err.Error(), "")
		return
	case m.Limit == 0:
		d.add("memory", core.FindingWarning, fmt.Sprintf("%d MiB used, without maxmemory: the system ends Redis when memory is short", m.Used/bytesPerMiB),
			"set maxmemory; see docs/operations.md#size")
		return
	}
	left, rate := d.untilFull(ctx, m, sinks)
	f := core.Finding{Level: core.FindingOK, About: "memory", Text: fmt.Sprintf("%d of %d MiB used, %s", m.Used/bytesPerMiB, m.Limit/bytesPerMiB, rate)}
	if float64(m.Free) < leastShare*float64(m.Limit) || left > 0 && left < fullSoon {
		f.Level, f.Fix = core.FindingWarning, "give Redis more memory, or send less; see docs/operations.md#delaybridgeredisnearlyfull"
	}
	d.found = append(d.found, f)
}

// untilFull is when Redis is full if as many more messages, of the mean size of those that
// are parked, come as did in the last hour; 0 if it does not fill up or nobody knows.
func (d *diagnosis) untilFull(ctx context.Context, m Memory, sinks []string) (left time.Duration, text string) {
	perSecond, err := d.growth(ctx)
	if err != nil {
		return 0, "no rate is known: " + err.Error()
	}
	if perSecond <= 0 {
		return 0, "not filling up in the last hour"
	}
	stats, err := d.Stats(ctx, sinks...)
	messages := 0
	for _, s := range stats {
		messages += s.Scheduled + s.Dead
	}
	if err != nil || messages < leastForMean {
		return 0, fmt.Sprintf("%.3g more messages a second in the last hour; with fewer than %d messages their size is not known", perSecond, leastForMean)
	}
	size := m.Dataset / int64(messages)
	left = time.Duration(min(float64(m.Free)/float64(size)/perSecond*float64(time.Second), 1<<62))
	return left, fmt.Sprintf("full in %s at the rate of the last hour, which is %.3g more messages a second, of %d bytes each", left.Round(time.Minute), perSecond, size)
}

// growth is by how many messages more come than go in a second, as the instances tell for
// the last hour. Those that were cancelled or discarded count as still there.
func (d *diagnosis) growth(ctx context.Context) (perSecond float64, err error) {
	known, err := d.formatCall(ctx, d.client, "", 0)
	if err != nil {
		return 0, err
	}
	d.keys.buckets = known.Buckets
	announced, err := d.Announced(ctx)
	if err != nil {
		return 0, err
	}
	told := 0
	for _, a := range announced {
		one := core.ReadReport(a)
		if one.Age < 0 {
			continue
		}
		told++
		took := min(max(time.Since(one.Started), time.Minute), time.Hour).Seconds()
		for _, sink := range one.Sinks {
			perSecond += (float64(sink.Last60m.Accepted) - float64(sink.Last60m.Delivered)) / took
		}
	}
	if told == 0 {
		return 0, errNoInstance
	}
	return perSecond, nil
}
