package redisstore

import (
	"fmt"
	"strconv"

	"github.com/delaybridge/delaybridge/core"
)

// keySpace makes the names of keys and channels. The part in braces is the hash
// tag: in a cluster all keys of a bucket lie in one slot. Sink names hold no
// brace and no colon, so no name can reach another's keys.
type keySpace struct {
	prefix  string
	buckets int
	events  bool // each bucket has a key more
}

// owner returns the first key of one bucket, which reports where all of them lie.
func (k keySpace) owner(sink string, number int) string { return k.tag(sink, number) + "owner" }

// bucket returns the keys of one bucket in the order that bucket.lua names.
func (k keySpace) bucket(sink string, number int) []string {
	tag := k.tag(sink, number)
	keys := append(make([]string, 0, 7+core.MaxPriority), tag+"owner", tag+"msg", tag+"attempts", tag+"dead", tag+"done")
	for p := range core.MaxPriority + 1 {
		keys = append(keys, tag+"due"+strconv.Itoa(p))
	}
	if k.events {
		keys = append(keys, tag+"events")
	}
	return keys
}

// appendCounted appends those keys of a bucket that count.lua reads.
func (k keySpace) appendCounted(keys []string, sink string, number, highest int) []string {
	tag := k.tag(sink, number)
	keys = append(keys, tag+"owner", tag+"attempts", tag+"dead")
	for p := range highest + 1 {
		keys = append(keys, tag+"due"+strconv.Itoa(p))
	}
	return keys
}

// tag is what the keys of one bucket begin with.
func (k keySpace) tag(sink string, number int) string {
	return fmt.Sprintf("%s:{%s:%02d}:", k.prefix, sink, number)
}

func (k keySpace) meta() string { return k.prefix + ":meta" }

// reports lies in the slot of meta.
func (k keySpace) reports() string { return k.prefix + ":{" + k.meta() + "}:reports" }

// live is the set of the instances that serve a sink, and plan which of its buckets
// fall to each. Another prefix than that of their channel: an earlier version has a
// set of that name, and other ideas of what falls to whom.
func (k keySpace) live(sink string) string { return k.prefix + ":{" + sink + "}:live" }
func (k keySpace) plan(sink string) string { return k.prefix + ":{" + sink + "}:plan" }

// wakeChannel is where an instance hears of messages that came before the
// first in one of its buckets.
func (k keySpace) wakeChannel(instance, sink string) string {
	return k.prefix + ":wake:" + instance + ":" + sink
}

// memberChannel is where the instances of a sink hear of each other.
func (k keySpace) memberChannel(sink string) string { return k.prefix + ":members:" + sink }
