//go:build unix

package main

import (
	"syscall"
	"time"
)

// pluginRows are troubles of a plugin, while its bridge lives.
func pluginRows() []*row {
	return []*row{{number: 31, name: "plugin in trouble", level: "fsync", bridges: 2, set: safeRedis, sink: pluginSinks, nemesis: (*run).troublePlugin,
		fault:    "kill -9 of the plugin, and SIGSTOP for 2 to 5 s, of either bridge's, in the order of the seed",
		expected: "the plugin is restarted; repeats say so; the bridge's memory stays within 64 MiB of what it was", perFault: 400, drainIn: 20 * time.Second,
		needs: map[string]int{"plugin killed": 2, "plugin stopped": 2, "attempts over 1": 1}}}
}

func (r *run) troublePlugin() {
	before := map[*bridge]int{}
	for _, b := range r.bridges {
		before[b] = b.vitals().rssKB
	}
	var troubles []func()
	for _, b := range r.bridges {
		troubles = append(troubles, func() { r.killPlugin(b) }, func() { r.stopPlugin(b) })
	}
	r.shuffled(troubles...)
	for _, b := range r.bridges {
		if after := b.vitals().rssKB; after > before[b]+moreForPlugin {
			r.find("L9", "bridge %s had %d kB and has %d kB", b.name, before[b], after)
		}
	}
}

const moreForPlugin = 64 << 10 // kB

// pluginThere waits for the plugin of a bridge.
func (r *run) pluginThere(b *bridge) int {
	for range 200 {
		if pid := r.plugin.process(b); pid != 0 {
			return pid
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.find("L7", "bridge %s has not started its plugin again within 10s", b.name)
	return 0
}

func (r *run) killPlugin(b *bridge) {
	pid := r.pluginThere(b)
	if pid == 0 {
		return
	}
	over := r.strike("plugin killed")
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	r.pluginThere(b)
	over()
	r.reached("plugin killed")
}

func (r *run) stopPlugin(b *bridge) {
	pid := r.pluginThere(b)
	if pid == 0 {
		return
	}
	over := r.strike("plugin stopped")
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(r.between(2*time.Second, 5*time.Second))
	_ = syscall.Kill(pid, syscall.SIGCONT) // its bridge may have ended it
	over()
	r.reached("plugin stopped")
}
