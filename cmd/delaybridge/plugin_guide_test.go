package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/integration/poll"
	"github.com/delaybridge/delaybridge/integration/servers"
)

var guideBlock = regexp.MustCompile(`<!-- run: (\w+) -->\n\n((?:    .*\n)+)`)

// guide returns the commands of docs/plugins.md, by name.
func guide(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, m := range guideBlock.FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = strings.ReplaceAll(m[2], "    ", "")
	}
	return blocks
}

// TestGuide does what the quick start of docs/plugins.md says, byte for byte but
// for the path of the checkout: it writes a plugin in each language, builds,
// tests and verifies it, and sees a message arrive.
func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes, and -short is set")
	}
	servers.Need(t, servers.HasProgram("make"), "make")
	blocks := guide(t)
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	interpreter := servers.Python()
	languages := map[string]struct {
		has  bool
		what string
		env  string
	}{
		"go":     {true, "", "GOFLAGS="},
		"python": {interpreter != "", "Python with grpcio and protobuf; run make deps", "PYTHON=" + interpreter},
		"node":   {servers.HasProgram("npm") && servers.HasProgram("node"), "node and npm; run make deps", "npm_config_loglevel=error"},
	}
	for language, l := range languages {
		t.Run(language, func(t *testing.T) {
			servers.Need(t, l.has, l.what)
			script := strings.ReplaceAll(blocks[language], "~/delaybridge", checkout)
			if !strings.Contains(script, "make verify") {
				t.Fatalf("docs/plugins.md has no commands for %s:\n%s", language, script)
			}
			g := guided{t: t, dir: t.TempDir(), env: append(os.Environ(), "GORACE="+raceOptions, l.env)}
			out := g.follow(script)
			if !regexp.MustCompile(`(?m)^\d\d passed, 0 failed, `).MatchString(out) || strings.Contains(out, "was not checked") {
				t.Errorf("the report is not as it should be:\n%s", out)
			}
			g.dir = filepath.Join(g.dir, "delaybridge-sink-hello")
			g.seesDelivery(blocks)
		})
	}
}

// guided is somebody who follows the guide.
type guided struct {
	t   *testing.T
	dir string
	env []string
}

func (g guided) command(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = g.dir, slices.Concat(g.env, []string{"PWD=" + g.dir})
	return cmd
}

func (g guided) sh(script string) string {
	g.t.Helper()
	out, err := g.command(script).CombinedOutput()
	if err != nil {
		g.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

var failedChecks = regexp.MustCompile(`(?m)^\d+ passed, [1-9]\d* failed, `)

// follow runs the commands of a language. If checks fail, the plugin is verified
// once more; see verifyTries.
func (g guided) follow(script string) string {
	g.t.Helper()
	out, err := g.command("set -e\n" + script).CombinedOutput()
	switch {
	case err != nil && failedChecks.Match(out):
		g.t.Logf("%v\n%s", err, out)
		return g.sh("cd delaybridge-sink-hello && make verify")
	case err != nil:
		g.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

func (g guided) seesDelivery(blocks map[string]string) {
	g.t.Helper()
	cmd := g.command("exec " + blocks["dev"])
	cmd.Stderr = g.t.Output()
	dev := start(g.t, cmd, cmd.StdoutPipe)
	g.env = append(g.env, envURL+"="+dev.await(`^  http   (http://\S+)$`))
	g.sh(blocks["send"])
	var out []byte
	poll.Holds(time.Minute, func() bool { out, _ = g.command(blocks["look"]).Output(); return len(out) > 0 })
	var line struct {
		Body    []byte `json:"body_base64"`
		Headers []any
	}
	if err := json.Unmarshal(out, &line); err != nil || string(line.Body) != "hello, later" || len(line.Headers) != 3 {
		g.t.Errorf("%v: %s", err, out)
	}
	dev.signal(syscall.SIGINT)
	if code := dev.end(); code != exitOK {
		g.t.Errorf("dev ended with code %d:\n%s", code, &dev.seen)
	}
}

// TestDevWithConfig: the sinks of the file are used, its store is not.
func TestDevWithConfig(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "dev.yaml", "sinks:\n  first: {type: console, config: {format: json}}\n  second: {type: console}\n")
	dev := startDevProcess(t, "--config", file, "--listen", "127.0.0.1:0", "--for", aWhile)
	dev.await(`^  sink   first$`)
	dev.await(`^  sink   second$`)
	dev.await(`^\{.*"topic":"samples".*sample 1`)
	if code := dev.end(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	dev.wantTotals("first: ", true)
	if want := "second: accepted 0,"; !strings.Contains(dev.seen.String(), want) {
		t.Errorf("the output has no %q:\n%s", want, &dev.seen)
	}
}
