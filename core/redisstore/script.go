package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The sources. A script is a chain of them: bucket.lua names the keys of the
// bucket and reads the clock, lease.lua is as much of it as a lease needs, wake.lua
// and find.lua add functions.
var (
	//go:embed lua/bucket.lua
	luaBucket string
	//go:embed lua/lease.lua
	luaLease string
	//go:embed lua/wake.lua
	luaWake string
	//go:embed lua/number.lua
	luaNumber string
	//go:embed lua/find.lua
	luaFind string
	//go:embed lua/park.lua
	luaPark string
	//go:embed lua/take.lua
	luaTake string
	//go:embed lua/settle.lua
	luaSettle string
	//go:embed lua/own.lua
	luaOwn string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/get.lua
	luaGet string
	//go:embed lua/cancel.lua
	luaCancel string
	//go:embed lua/reschedule.lua
	luaReschedule string
	//go:embed lua/redrive.lua
	luaRedrive string
	//go:embed lua/discard.lua
	luaDiscard string
	//go:embed lua/page.lua
	luaPage string
	//go:embed lua/peek.lua
	luaPeek string
	//go:embed lua/count.lua
	luaCount string
	//go:embed lua/beat.lua
	luaBeat string
)

// script is one Lua script and the name that Redis knows it by.
type script struct {
	source, sha string
}

func newScript(parts ...string) *script {
	source := shiftClock(strings.Join(parts, "\n"))
	sum := sha1.Sum([]byte(source))
	return &script{source: source, sha: hex.EncodeToString(sum[:])}
}

// scripts are all that a Store runs.
type scripts struct {
	park, take, settle, own, renew, release, get, cancel, reschedule, redrive, discard, page, peek, count, beat *script
}

func newScripts() *scripts {
	return &scripts{
		park:       newScript(luaBucket, luaWake, luaNumber, luaFind, luaPark),
		take:       newScript(luaBucket, luaTake),
		settle:     newScript(luaBucket, luaNumber, luaSettle),
		own:        newScript(luaBucket, luaOwn),
		renew:      newScript(luaLease, luaRenew),
		release:    newScript(luaLease, luaRelease),
		get:        newScript(luaBucket, luaFind, luaGet),
		cancel:     newScript(luaBucket, luaFind, luaCancel),
		reschedule: newScript(luaBucket, luaWake, luaNumber, luaFind, luaReschedule),
		redrive:    newScript(luaBucket, luaWake, luaNumber, luaFind, luaRedrive),
		discard:    newScript(luaBucket, luaFind, luaDiscard),
		page:       newScript(luaBucket, luaPage),
		peek:       newScript(luaBucket, luaPeek),
		count:      newScript(luaBucket, luaCount),
		beat:       newScript(luaBeat),
	}
}

func (s *scripts) all() []*script {
	return []*script{s.park, s.take, s.settle, s.own, s.renew, s.release, s.get, s.cancel,
		s.reschedule, s.redrive, s.discard, s.page, s.peek, s.count, s.beat}
}

// load puts the scripts into every master that client reaches. Redis forgets
// them at restart and failover, so this is done again after NOSCRIPT.
func (s *scripts) load(ctx context.Context, client redis.UniversalClient) error {
	onto := func(ctx context.Context, c redis.Cmdable) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, one := range s.all() {
				p.ScriptLoad(ctx, one.source)
			}
			return nil
		})
		return err
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return onto(ctx, c) })
	} else {
		err = onto(ctx, client)
	}
	if err != nil {
		return fmt.Errorf("load scripts: %w", err)
	}
	return nil
}

// call is one script call that is sent once: a reply that was lost must not
// make the client library run the script again behind our back.
type call struct {
	*redis.Cmd
}

// NoRetry is asked by the client library.
func (call) NoRetry() bool { return true }

// key is the first, which says where in a cluster the call goes.
func (c call) key() string {
	key, _ := c.Args()[3].(string)
	return key
}

func newCall(ctx context.Context, s *script, keys []string, args ...any) call {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", s.sha, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return call{cmd}
}

// loadTries is how often a call is sent again after its script was missing. A
// failover between the two may make it miss twice.
const loadTries = 3

// run sends calls in one pipeline on client and returns when each has its
// result, after the timeout of a command at the latest. It loads scripts that are
// missing and sends only those calls again.
func (s *Store) run(ctx context.Context, client redis.UniversalClient, calls ...call) {
	ctx, cancel := context.WithTimeout(ctx, s.config.timeout)
	defer cancel()
	s.send(ctx, client, calls, func(context.Context) *redis.Cmd { return nil })
}

// send is run with the command that last makes, if any, behind the calls in the
// same pipeline. It returns the one that was sent last.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, calls []call, last func(context.Context) *redis.Cmd) *redis.Cmd {
	for try := 1; ; try++ {
		pipe := client.Pipeline()
		for _, c := range calls {
			pipe.Process(ctx, c)
		}
		behind := last(ctx)
		if behind != nil {
			pipe.Process(ctx, call{behind})
		}
		pipe.Exec(ctx) // each call has its own error
		if calls = missing(calls); len(calls) == 0 || try == loadTries {
			return behind
		}
		err := s.scripts.load(ctx, client)
		for _, c := range calls {
			c.SetErr(err) // nil for the next try
		}
		if err != nil {
			return behind
		}
	}
}

func missing(calls []call) []call {
	var out []call
	for _, c := range calls {
		if err := c.Err(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			out = append(out, c)
		}
	}
	return out
}
