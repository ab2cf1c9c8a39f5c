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

// The sources. A script is a chain of them: clock.lua reads the clock, bucket.lua
// names the keys of the bucket, deadline.lua ends what comes too late, and others
// add functions.
var (
	//go:embed lua/clock.lua
	luaClock string
	//go:embed lua/deadline.lua
	luaDeadline string
	//go:embed lua/remember.lua
	luaRemember string
	//go:embed lua/bucket.lua
	luaBucket string
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
	//go:embed lua/timeline.lua
	luaTimeline string
	//go:embed lua/fleet.lua
	luaFleet string
	//go:embed lua/beat.lua
	luaBeat string
	//go:embed lua/format.lua
	luaFormat string
	//go:embed lua/pin.lua
	luaPin string
	//go:embed lua/tell.lua
	luaTell string
	//go:embed lua/unsent.lua
	luaUnsent string
	//go:embed lua/sent.lua
	luaSent string
)

// script is one Lua script, its name here, and the one that Redis knows it by.
type script struct {
	name, source, sha string
	// changes: its last two arguments say for how long a call of it holds, see
	// deadline.lua.
	changes bool
}

// newChange makes a script that changes something.
func newChange(name string, parts ...string) *script {
	s := newScript(name, append([]string{luaClock, luaDeadline}, parts...)...)
	s.changes = true
	return s
}

func newScript(name string, parts ...string) *script {
	source := shiftClock(strings.Join(parts, "\n"))
	sum := sha1.Sum([]byte(source))
	return &script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

// scripts are all that a Store runs.
type scripts struct {
	park, take, settle, own, renew, release, get, cancel, reschedule, redrive, discard, page, peek, count, timeline, fleet, beat, format, pin, unsent, sent *script
}

func newScripts() *scripts {
	return &scripts{
		park:       newChange("park", luaBucket, luaWake, luaNumber, luaFind, luaPark),
		take:       newChange("take", luaBucket, luaRemember, luaTake),
		settle:     newChange("settle", luaBucket, luaTell, luaNumber, luaRemember, luaSettle),
		own:        newChange("own", luaBucket, luaOwn),
		renew:      newChange("renew", luaRenew),
		release:    newChange("release", luaRelease),
		cancel:     newChange("cancel", luaBucket, luaTell, luaFind, luaRemember, luaCancel),
		reschedule: newChange("reschedule", luaBucket, luaWake, luaNumber, luaFind, luaReschedule),
		redrive:    newChange("redrive", luaBucket, luaWake, luaNumber, luaFind, luaRedrive),
		discard:    newChange("discard", luaBucket, luaTell, luaFind, luaRemember, luaDiscard),
		beat:       newChange("beat", luaBeat),
		format:     newChange("format", luaFormat),
		pin:        newChange("pin", luaPin),
		sent:       newChange("sent", luaBucket, luaSent),
		unsent:     newScript("unsent", luaClock, luaBucket, luaUnsent),
		get:        newScript("get", luaClock, luaBucket, luaFind, luaGet),
		page:       newScript("page", luaClock, luaBucket, luaPage),
		peek:       newScript("peek", luaClock, luaBucket, luaPeek),
		count:      newScript("count", luaClock, luaCount),
		timeline:   newScript("timeline", luaBucket, luaTimeline),
		fleet:      newScript("fleet", luaClock, luaFleet),
	}
}

func (s *scripts) all() []*script {
	return []*script{s.park, s.take, s.settle, s.own, s.renew, s.release, s.get, s.cancel,
		s.reschedule, s.redrive, s.discard, s.page, s.peek, s.count, s.timeline, s.fleet, s.beat, s.format, s.pin, s.unsent, s.sent}
}

// load puts the scripts into every master that client reaches. Redis forgets
// them at restart and failover, so this is done again after NOSCRIPT.
func (s *scripts) load(ctx context.Context, client redis.UniversalClient) error {
	err := eachMaster(ctx, client, func(ctx context.Context, c redis.Cmdable) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, one := range s.all() {
				p.ScriptLoad(ctx, one.source)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("load scripts: %w", err)
	}
	return nil
}
