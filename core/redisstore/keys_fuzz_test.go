package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzKeys: two sinks, under one prefix or under two of which neither extends
// the other by a colon, share no key and no channel; all keys of a bucket have
// one hash tag, and it is that bucket's alone.
func FuzzKeys(f *testing.F) {
	f.Add("delaybridge", "orders", "delaybridge", "orders2", uint16(3), uint16(16))
	f.Add("a", "b", "a:b", "b", uint16(0), uint16(1))
	f.Add("p", "orders", "p", "orders.03", uint16(3), uint16(1024))
	f.Add("p", "members", "p", "wake", uint16(0), uint16(1))
	f.Add("}", "x", "a}b", "x", uint16(0), uint16(1))
	f.Fuzz(func(t *testing.T, prefix, sink, otherPrefix, other string, number, buckets uint16) {
		for _, p := range []string{prefix, otherPrefix} {
			if p == "" || (Config{Addrs: []string{"a:1"}, Prefix: p}).Check() != nil {
				return
			}
		}
		if core.CheckSinkName(sink) != nil || core.CheckSinkName(other) != nil || prefix == otherPrefix && sink == other {
			return
		}
		if strings.HasPrefix(prefix+":", otherPrefix+":") != strings.HasPrefix(otherPrefix+":", prefix+":") {
			return // "a" and "a:b": an operator's own doing
		}
		count := int(buckets)%core.MaxBuckets + 1
		one, two := keySpace{prefix, count, true}, keySpace{otherPrefix, count, true}
		owners := make(map[string]string)
		reserve(t, owners, one, sink, int(number)%count)
		reserve(t, owners, two, other, int(number)%count)
	})
}

// reserve notes the names that a sink uses, of two of its buckets, and fails if
// one is in use by another sink or bucket.
func reserve(t *testing.T, owners map[string]string, k keySpace, sink string, number int) {
	t.Helper()
	note := func(name, owner string) {
		if before, taken := owners[name]; taken && before != owner {
			t.Errorf("%s and %s share %q", before, owner, name)
		}
		owners[name] = owner
	}
	for _, n := range []int{number, (number + 1) % k.buckets} {
		owner := fmt.Sprintf("bucket %d of %q under %q", n, sink, k.prefix)
		tag := ""
		for _, key := range k.bucket(sink, n) {
			note(key, owner)
			if got := hashTag(key); tag != "" && got != tag || got == "" {
				t.Errorf("%q has the tag %q, another key of the bucket %q", key, got, tag)
			}
			tag = hashTag(key)
		}
		note(k.prefix+"\x00"+tag, owner)
	}
	owner := fmt.Sprintf("sink %q under %q", sink, k.prefix)
	note(k.live(sink), owner)
	note(k.plan(sink), owner)
	note("channel "+k.memberChannel(sink), owner)
	note("channel "+k.wakeChannel("host-1-abcdef", sink), owner)
	note(k.meta(), "prefix "+k.prefix)
}

// hashTag is the part of a key that decides its slot, as Redis Cluster has it.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// FuzzFailure: what is stored about a failed message reads back, and what can't
// have been stored is no failure rather than half of one.
func FuzzFailure(f *testing.F) {
	f.Add("3 1700000000000 retry\nconnection refused", "retry", "text", 3)
	f.Add("", "permanent", "a\nb\x1b[0m\xff", 1<<40)
	f.Add("3 x retry\n", "unknown", "", -1)
	f.Add("99999999999999999999 1 a", "crashed", "", 0)
	f.Fuzz(func(t *testing.T, stored, reason, text string, attempts int) {
		due := millis(int64(1_700_000_000_000))
		_ = parseFailure(stored, due)
		if strings.ContainsAny(reason, " \n") { // ours: one word
			return
		}
		want := failure{attempts: attempts, deliverAt: due, reason: reason, text: core.Shorten(text, core.MaxErrorText)}
		got := parseFailure(failure{attempts, due, reason, text}.String(), due.Add(1))
		if got.attempts != want.attempts || !got.deliverAt.Equal(due) || got.reason != want.reason || got.text != want.text {
			t.Errorf("%+v became %+v", want, got)
		}
	})
}
