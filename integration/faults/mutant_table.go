//go:build unix

package main

import "slices"

const (
	luaDir     = "core/redisstore/lua/"
	storeTests = "./core/redisstore"
)

// allMutants are the planted faults. Each is a mistake that somebody could make.
func allMutants() []*mutant {
	return slices.Concat(engineMutants(), storeMutants(), callMutants(), targetMutants())
}

func engineMutants() []*mutant {
	return []*mutant{
		{name: "settled before the sink confirmed", file: "core/dispatcher.go", rows: []int{2},
			from: "	d.Outcomes = l.work(ctx, d.Batch, storeNow, p)\n	d.Err = l.settle(ctx, d.Outcomes)\n",
			to:   "	d.Outcomes = l.delivered(d.Messages, d.Now)\n	d.Err = l.settle(ctx, d.Outcomes)\n	l.work(ctx, d.Batch, storeNow, p)\n"},
		{name: "failed counts as delivered", file: "core/result.go", rows: []int{21},
			from: "	default:\n		p.failed(l, err)\n		return nil\n", to: "	default:\n		p.succeeded(l)\n		return l.delivered(batch, now)\n"},
		{name: "unknown counts as delivered", file: "core/result.go", rows: []int{21},
			from: "		return l.unknownAll(batch, err, now)\n", to: "		return l.delivered(batch, now)\n"},
		{name: "given up at the first failure", file: "core/attempts.go", rows: []int{21},
			from: "Outcome{ID: m.ID, State: Retrying, Attempts: m.Attempt, Reason:", to: "Outcome{ID: m.ID, State: Dead, Attempts: m.Attempt, Reason:"},
		{name: "a plain error is always the sink's", file: "core/delivery.go", rows: []int{50},
			from: "		return l.isolate(ctx, batch)\n", to: "		return err\n"},
		{name: "a sink is closed before its deliveries have ended", file: "core/apply.go", rows: []int{61},
			from: "		d.retire()\n", to: "		d.retire()\n		_ = d.Sink.Close()\n"},
		{name: "a sink is replaced without waiting for its buckets", file: "core/apply.go", rows: []int{61},
			from: "		if !d.loops.end(ctx, b.stopTimeout) {", to: "		if ctx.Err() != nil {"},
		{name: "events are removed before they are sent", file: "internal/events/sender.go", rows: []int{62},
			from: "			if !s.deliver(ctx, messages, &s.final) {\n				return\n			}\n			if err = sent(ctx); err == nil {",
			to:   "			if err = sent(ctx); !s.deliver(ctx, messages, &s.final) {\n				return\n			}\n			if err == nil {"},
		{name: "events that another bridge has told of are not looked for", file: "core/redisstore/outbox.go", rows: []int{62},
			from: "		if v := c.Val(); len(v) == 2 && (v[0] != nil || v[1] != nil) {", to: "		if v := c.Val(); false {"},
		{name: "stop does not settle what is in flight", file: "core/dispatcher.go", rows: []int{40},
			from: "	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)", to: "	ctx, cancel := context.WithTimeout(ctx, settleTimeout)"},
	}
}

// callMutants are of when calls are made and for how long they hold.
func callMutants() []*mutant {
	return []*mutant{
		{name: "late calls take effect", file: luaDir + "deadline.lua", rows: []int{47},
			from: "if micros < sent or micros > sent + holds then return late() end\n", to: ""},
		{name: "renewals on the connections of the takes", file: "core/redisstore/loop.go", test: []string{"-run", "TestRenewedThoughTakes", storeTests},
			from: "l.Store.run(ctx, l.keeping, p.calls...)", to: "l.Store.run(ctx, l.serving, p.calls...)"},
		{name: "late lease requests take effect", file: "core/redisstore/scripts.go", rows: []int{48},
			from: "newChange(\"own\", luaBucket, luaOwn)", to: "newScript(\"own\", luaClock, luaBucket, luaOwn)"},
		{name: "late redrives take effect", file: "core/redisstore/scripts.go", rows: []int{54},
			from: "newChange(\"redrive\", luaBucket, luaWake, luaNumber, luaFind, luaRedrive)", to: "newScript(\"redrive\", luaClock, luaBucket, luaWake, luaNumber, luaFind, luaRedrive)"},
		{name: "late discards take effect", file: "core/redisstore/scripts.go", rows: []int{54},
			from: "newChange(\"discard\", luaBucket, luaTell, luaFind, luaRemember, luaDiscard)", to: "newScript(\"discard\", luaClock, \"local holds = 0\", luaBucket, luaTell, luaFind, luaRemember, luaDiscard)"},
		{name: "redrive without a look at the sequence number", file: luaDir + "redrive.lua", test: []string{"-run", "TestOvertakenCall", storeTests},
			from: "if moved(m, ARGV[3]) then return {'moved'} end\n", to: ""},
		{name: "discard without a look at the sequence number", file: luaDir + "discard.lua", test: []string{"-run", "TestOvertakenCall", storeTests},
			from: "if moved(m, ARGV[3]) then return {'moved'} end\n", to: ""},
		{name: "leases are renewed when they are over", file: "core/redisstore/lease.go", rows: []int{52},
			from: "now.Sub(t.asked) >= l.renewEvery()", to: "now.Sub(t.asked) >= l.leaseTime"},
		{name: "accepts of one server wait for another", file: "core/redisstore/park_queue.go", rows: []int{51},
			from: "	q := k.queues[server]\n", to: "	server = \"\"\n	q := k.queues[server]\n"},
		{name: "remembered ids are not swept", file: luaDir + "remember.lua", rows: []int{49},
			from: "  forget(window, 2 * #ids + 2)\n", to: ""},
	}
}

func storeMutants() []*mutant {
	return []*mutant{
		{name: "settle without a look at the number of the take", file: luaDir + "settle.lua", test: []string{"-run", "TestLateSettle", storeTests},
			from: "if not inflight or mine < took then", to: "if not inflight then"},
		{name: "settle that failed counts as done", file: luaDir + "settle.lua", test: []string{"-run", "TestSettleGoesOn", storeTests},
			from: "\nallow_full()\n", to: "\nredis.call('HDEL', owner, 'inflight')\n"},
		{name: "settle that removes by rank twice", file: luaDir + "settle.lua", test: []string{"-run", "TestSettleGoesOn", storeTests},
			from: "if held[p + 1] and stands(p, count, a) then", to: "if true then"},
		{name: "take that comes late takes effect", file: luaDir + "take.lua", test: []string{"-run", "TestLateTake", storeTests},
			from: "if tonumber(ARGV[5]) <= tonumber(o[5] or 0) then", to: "if tonumber(ARGV[5]) < 0 then"},
		{name: "settle without a look at the token", file: luaDir + "settle.lua", test: []string{"-run", "TestStore|TestPausedOwnerIsFenced", storeTests},
			from: "if o[1] ~= ARGV[1] then return 0 end\n", to: ""},
		{name: "take without a look at the token", file: luaDir + "take.lua", test: []string{"-run", "TestStore|TestPausedOwnerIsFenced", storeTests},
			from: "if o[1] ~= ARGV[1] or tonumber(o[2]) < now then return {'lost'} end\n", to: ""},
		{name: "latest first", file: luaDir + "take.lua", test: []string{"-run", "TestStore", storeTests},
			from: "redis.call('ZRANGEBYSCORE', due(p), '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)", to: "redis.call('ZREVRANGEBYSCORE', due(p), now, '-inf', 'WITHSCORES', 'LIMIT', 0, left)"},
		{name: "due by a clock that is 300 ms ahead", file: luaDir + "take.lua", rows: []int{0},
			from: "due(p), '-inf', now, 'WITHSCORES'", to: "due(p), '-inf', now + 300, 'WITHSCORES'"},
		{name: "repeat answered without a look at the content", file: luaDir + "park.lua", rows: []int{0},
			from: "      if stored:byte(1) == payload:byte(1) and math.abs(#stored - #payload) > varying then return end\n      compare[#reply] = true\n", to: ""},
		{name: "time to live on the messages", file: luaDir + "park.lua", rows: []int{0},
			from: "if r > 0 then call('HSET', msg, unpack(records)) end\n", to: "if r > 0 then call('HSET', msg, unpack(records)) call('PEXPIRE', msg, 1000) end\n"},
		{name: "attempt not counted when a bucket is taken over", file: luaDir + "own.lua", rows: []int{3},
			from: "(count + 1) .. ' '", to: "count .. ' '"},
		{name: "bucket taken from a living owner", file: luaDir + "own.lua", rows: []int{40},
			from: " and till >= now then", to: " and till < 0 then"},
		{name: "bucket not handed over", file: luaDir + "release.lua", rows: []int{40},
			from: "redis.call('HSET', owner, 'token', '', 'wake', '', 'until', 0)\n", to: ""},
		{name: "renewal that prolongs nothing", file: luaDir + "renew.lua", test: []string{"-run", "TestRenewalProlongs", storeTests},
			from: "redis.call('HSET', owner, 'until', now + ARGV[1])\n", to: ""},
		{name: "cancel of what is in flight", file: luaDir + "find.lua", rows: []int{22},
			from: "then m.state = 'delivering' end", to: "then m.state = 'waiting' end"},
		{name: "reschedule that changes nothing", file: luaDir + "reschedule.lua", rows: []int{0},
			from: "at = accept_anew(m, m.record, at)\n", to: "accept_anew(m, m.record, m.due)\n"},
		{name: "settled ids are not remembered", file: luaDir + "settle.lua", rows: []int{0},
			from: "  remember({unpack(ARGV, a, a + count - 1)}, 1, tonumber(ARGV[2]))\n", to: ""},
		{name: "full Redis can't be drained", file: luaDir + "bucket.lua", rows: []int{18},
			from: "redis.call('HDEL', owner, '-') end", to: "end"},
		{name: "WAIT left out", file: "core/redisstore/durability.go", rows: []int{14, 13},
			from: "		return redis.NewCmd(ctx, \"wait\", d.replicas, ms)\n", to: "		return nil\n"},
		{name: "lost reply called a refusal", file: "core/redisstore/errors.go", rows: []int{29},
			from: "	return core.ErrUnknown\n}\n\n// scriptCode", to: "	return core.ErrUnavailable\n}\n\n// scriptCode"},
		{name: "client library repeats scripts", file: "core/redisstore/call.go", rows: []int{29},
			from: "func (call) NoRetry() bool { return true }", to: "func (call) NoRetry() bool { return false }"},
		{name: "scripts not loaded again", file: "core/redisstore/call.go", rows: []int{10},
			from: "\"NOSCRIPT\"", to: "\"NOSCRIPTS\""},
		{name: "a newer record is buried", file: "core/redisstore/take.go", rows: []int{53},
			from: "		if errors.Is(err, errNewer) {\n", to: "		if false {\n"},
		{name: "a newer format written though not all read it", file: luaDir + "format.lua", test: []string{"-run", "TestNewestThatAllRead", storeTests},
			from: "    common = math.min(common, tonumber(reads))\n", to: ""},
		{name: "a pin that lowers nothing", file: luaDir + "pin.lua", test: []string{"-run", "TestPin", storeTests},
			from: "math.min(pin, tonumber(m[2] or m[1]))", to: "m[2] or m[1]"},
	}
}
