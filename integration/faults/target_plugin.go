//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// pluginTarget is a plugin that writes files, which each bridge starts for itself. All append to the files of one directory.
type pluginTarget struct {
	run     *run
	command string
	dir     string
}

// pluginSinks delivers to files, by a plugin.
func pluginSinks(r *run) string { return r.pluginSink("out", "./examples/plugins/file", "") }

// pluginSink is a sink of that name that delivers to files by the plugin of a
// package, with further settings of the sink.
func (r *run) pluginSink(name, source, settings string) string {
	root, err := moduleRoot()
	if err != nil {
		r.Fatalf("%v", err)
	}
	p := &pluginTarget{run: r, command: filepath.Join(r.TempDir(), "delaybridge-sink-"+filepath.Base(source)), dir: r.TempDir()}
	cmd := exec.Command("go", "build", "-o", p.command, source)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("build the plugin: %v\n%s", err, out)
	}
	r.plugin = p
	p.follow("orders")
	return fmt.Sprintf(`%s: {type: plugin, timeout: 3s%s, config: {command: %q, health_interval: 1s, config: {dir: %q}}}`, name, settings, p.command, p.dir)
}

// written is a message in the plugin's file.
type written struct {
	Key     []byte `json:"key_base64"`
	Headers []struct {
		Name  string `json:"name"`
		Value []byte `json:"value_base64"`
	} `json:"headers"`
	Body []byte `json:"body_base64"`
}

func (w written) landing(topic string) landing {
	l := landing{topic: topic, key: string(w.Key), body: string(w.Body)}
	for _, h := range w.Headers {
		value := string(h.Value)
		l.headers = append(l.headers, header{h.Name, &value})
	}
	return l
}

// follow notes the lines of a topic's file until the run is over.
func (p *pluginTarget) follow(topic string) {
	file, err := os.OpenFile(filepath.Join(p.dir, topic+".jsonl"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		p.run.Fatalf("open the plugin's file: %v", err)
	}
	p.run.tail(file, "the plugin", func(line []byte) error {
		var w written
		if err := json.Unmarshal(line, &w); err != nil {
			return err
		}
		p.run.land(w.landing(topic))
		return nil
	})
}

// process is the plugin of a bridge; 0 if there is none.
func (p *pluginTarget) process(b *bridge) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is fine
	for _, path := range stats {
		text, err := os.ReadFile(path)
		number, rest, ok := strings.Cut(string(text), " (")
		if err != nil || !ok {
			continue // it has ended
		}
		_, rest, _ = strings.Cut(rest, ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(b.process.Cmd.Process.Pid) {
			pid, _ := strconv.Atoi(number)
			return pid
		}
	}
	return 0
}
