//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"
)

// brokenRows have a plugin that does not start when its bridge does.
func brokenRows() []*row {
	return []*row{{number: 58, name: "plugin broken at the start", level: "fsync", bridges: 2, set: safeRedis, sink: consoleAndBrokenPlugin, shape: (*run).halfForPlugin, nemesis: (*run).fixPlugin,
		fault:    "the program of a plugin ends, hangs or talks nonsense, by the seed, when the bridges start and when they are started again after a kill -9; then it is made good",
		expected: "the bridges start, say which sink is blocked, accept for it and deliver for the other; what has waited arrives when the plugin is good", perFault: 200, drainIn: 30 * time.Second,
		needs: map[string]int{"blocked at the start": 4, "waited for the plugin": 50}}}
}

// brokenPrograms take their time, so that a plugin is not tried once a minute before it
// is made good.
func brokenPrograms() []string {
	return []string{"sleep 1.5\necho 'libbroker.so is missing' >&2\nexit 127", "exec sleep 60", "sleep 1.5\necho hello\nexec sleep 60"}
}

const (
	pluginsSink = "odd"
	good        = ".good"
)

func consoleAndBrokenPlugin(r *run) string {
	section := r.pluginSink(pluginsSink, "./examples/plugins/file", "")
	r.harmIf(os.Rename(r.plugin.command, r.plugin.command+good))
	programs := brokenPrograms()
	script := "#!/bin/sh\n" + programs[r.seed%uint64(len(programs))] + "\n"
	r.harmIf(os.WriteFile(r.plugin.command, []byte(script), 0o700))
	return consoleSinks + "\n  " + strings.Replace(section, "health_interval: 1s", "health_interval: 1s, start_timeout: 2s", 1)
}

func (r *run) halfForPlugin(p *plan) {
	if p.message.Sink = "out"; p.number%2 == 1 {
		p.message.Sink = pluginsSink
	}
}

func (r *run) fixPlugin() {
	over, from := r.strikeClean("plugin broken"), time.Now()
	for _, b := range r.bridges {
		r.wantBlocked(b)
	}
	time.Sleep(r.between(2*time.Second, 3*time.Second))
	r.checkInTime(from, time.Now().Add(-inTime), func(e entry) bool { return e.Bridge != "" }) // of the console
	for _, b := range r.bridges {
		r.crash(b)
		b.start("")
		r.wantBlocked(b)
	}
	for _, a := range r.missing() {
		if a.lastDue(0).Before(time.Now().Add(-inTime)) {
			r.reached("waited for the plugin")
		}
	}
	r.harmIf(os.Rename(r.plugin.command+good, r.plugin.command))
	over()
	time.Sleep(span / 2)
}

// wantBlocked finds whether a bridge accepts, and says that the plugin's sink is in
// trouble and no other.
func (r *run) wantBlocked(b *bridge) {
	status, text, err := r.request(b, http.MethodGet, "/readyz", nil)
	var health struct {
		Ready bool              `json:"ready"`
		Sinks map[string]string `json:"sinks"`
	}
	if err == nil {
		err = json.Unmarshal(text, &health)
	}
	if err != nil || status != http.StatusOK || !health.Ready || len(health.Sinks) != 1 || health.Sinks[pluginsSink] == "" {
		r.find("L10", "bridge %s does not say that it is ready and one sink is blocked: %d %s %v", b.name, status, text, err)
		return
	}
	r.reached("blocked at the start")
}
