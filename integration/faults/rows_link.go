//go:build unix

package main

import "time"

// linkRows are a bad link between the bridges and Redis, from beginning to end.
func linkRows() []*row {
	return []*row{{number: 28, name: "bad link to Redis", fault: "replies of Redis come 200 ms ± 100 later, at 1 % of what passes the connection is reset, a quarter of it comes byte by byte",
		expected: "slower, and correct", level: "fsync", bridges: 2, set: redisBehindProxy, nemesis: (*run).endureLink,
		perFault: 1000, drainIn: 25 * time.Second, needs: map[string]int{"reset": 10, "byte by byte": 100, "unknown": 5}}}
}

// endureLink leaves the link behind the proxy bad for longer than other rows have faults.
func (r *run) endureLink() {
	over := r.strike("bad link")
	r.proxy.roughen(&roughness{delay: 200 * time.Millisecond, jitter: 100 * time.Millisecond, resets: 0.01, slices: 0.25})
	time.Sleep(2 * span)
	r.proxy.roughen(nil)
	over()
	r.seen["reset"], r.seen["byte by byte"] = r.proxy.counted(&r.proxy.resets), r.proxy.counted(&r.proxy.sliced)
	time.Sleep(time.Second)
}
