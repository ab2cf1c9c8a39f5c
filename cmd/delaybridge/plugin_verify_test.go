package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/sinks/plugin/kit"
	"github.com/delaybridge/delaybridge/sinks/suite"
)

// badPlugin builds testdata/badplugin.
func badPlugin(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program, and -short is set")
	}
	path := filepath.Join(t.TempDir(), "badplugin")
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/badplugin").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verify runs the command and returns the exit code and its report.
func verify(t *testing.T, args ...string) (int, kit.Report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"plugin", "verify", "--format", "json"}, args...), strings.NewReader(""), &stdout, &stderr)
	var r kit.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("code %d, the report is not JSON: %v\n%s\n%s", code, err, &stdout, &stderr)
	}
	return code, r
}

// verifyTries is how often a plugin is verified that should pass: the limits of
// some checks are short for a machine that stands still for a while. What is
// wrong with the plugin fails each time.
const verifyTries = 3

func namesOf(r kit.Report, status suite.Status) []string {
	var names []string
	for _, result := range r.Results {
		if result.Status == status {
			number, _, _ := strings.Cut(result.Name, " ")
			names = append(names, number)
		}
	}
	return names
}

func TestVerifyFindsFaults(t *testing.T) {
	path := badPlugin(t)
	file := writeFile(t, "verify.yaml", "config: {password: correct-horse}\nread_timeout: 1s\nreader: [sleep, \"60\"]\ncan: [headers]\n")
	sound := []string{"V1", "V2", "V3", "V4", "V5", "V6", "V8", "V9", "V10", "V11"}
	var code int
	var r kit.Report
	for range verifyTries {
		code, r = verify(t, path, "--config", file, "--", "lax", "leaky")
		if !slices.ContainsFunc(sound, func(name string) bool { return slices.Contains(namesOf(r, suite.Failed), name) }) {
			break
		}
	}
	failed := namesOf(r, suite.Failed)
	for _, want := range []string{"V7", "V12", "K1", "K2", "K26"} {
		if !slices.Contains(failed, want) {
			t.Errorf("%s did not fail", want)
		}
	}
	for _, want := range sound {
		if slices.Contains(failed, want) {
			t.Errorf("%s failed", want)
		}
	}
	if code != exitConflict || r.Failed != len(failed) || r.Name != "bad" || len(r.SHA256) != 64 {
		t.Errorf("code %d, %+v", code, r)
	}
	for _, result := range r.Results {
		if result.Status != suite.Passed && len(result.Log) == 0 {
			t.Errorf("%s is %s and does not say why", result.Name, result.Status)
		}
		if strings.Contains(strings.Join(result.Log, "\n"), "correct-horse") {
			t.Errorf("%s tells the password: %q", result.Name, result.Log)
		}
	}
}

// TestVerifyWithoutReader: nobody looks at what arrives, and the report says so.
func TestVerifyWithoutReader(t *testing.T) {
	path := badPlugin(t)
	file := writeFile(t, "verify.yaml", "config: {password: correct-horse}\n")
	var stdout, stderr bytes.Buffer
	report := filepath.Join(t.TempDir(), "report.xml")
	code := exitFailed
	for try := 0; code != exitOK && try < verifyTries; try++ {
		stdout.Reset()
		code = run(t.Context(), []string{"plugin", "verify", path, "--config", file, "--format", "junit", "--output", report},
			strings.NewReader(""), &stdout, &stderr)
	}
	if code != exitOK || !strings.Contains(stdout.String(), "the plugin may not deliver anything") ||
		!strings.Contains(stdout.String(), "skip  K1 one message arrives byte-equal: capability reader not declared") {
		t.Errorf("code %d\n%s\n%s", code, &stdout, &stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Suites []struct {
			Name     string     `xml:"name,attr"`
			Tests    int        `xml:"tests,attr"`
			Failures int        `xml:"failures,attr"`
			Skipped  int        `xml:"skipped,attr"`
			Cases    []struct{} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	all := suites.Suites[0]
	if all.Name != "bad 0.1.0" || all.Failures != 0 || all.Tests != len(all.Cases) || all.Skipped == 0 {
		t.Errorf("%+v", all)
	}
}

// TestVerifyOneCase: only what is asked for is run, and what that needs.
func TestVerifyOneCase(t *testing.T) {
	path := badPlugin(t)
	file := writeFile(t, "verify.yaml", "config: {password: correct-horse}\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"one":     {[]string{"--case", "K22"}, "V5 V6 K22"},
		"several": {[]string{"--case", "K22,v2", "--case", "k23"}, "V2 V5 V6 K22 K23"},
		"last":    {[]string{"--case", "V12"}, "V5 V6 V12"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, r := verify(t, append([]string{path, "--config", file}, test.args...)...)
			var names []string
			for _, result := range r.Results {
				number, _, _ := strings.Cut(result.Name, " ")
				names = append(names, number)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("ran %s, want %s", got, test.want)
			}
		})
	}
}

func TestVerifyOfWhatDoesNotStart(t *testing.T) {
	script := func(text string) string {
		path := writeFile(t, "plugin", text)
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := writeFile(t, "verify.yaml", "config: {password: correct-horse}\n")
	tests := map[string]struct {
		args []string
		says string
	}{
		"noisy": {[]string{badPlugin(t), "--config", file, "--", "noisy"}, `the first line on standard output is "starting up"`},
		"ends":  {[]string{script("#!/bin/sh\necho no such library >&2\nexit 1\n")}, "no such library"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, r := verify(t, test.args...)
			if failed := namesOf(r, suite.Failed); code != exitConflict || len(failed) == 0 || failed[0] != "V1" {
				t.Errorf("code %d, failed %q", code, failed)
			}
			if log := strings.Join(r.Results[0].Log, "\n"); !strings.Contains(log, test.says) {
				t.Errorf("says %q, want %q", log, test.says)
			}
			if slices.ContainsFunc(r.Results, func(r kit.Result) bool { return r.Group == "delivery" }) {
				t.Error("the suite ran although the plugin can't be opened")
			}
		})
	}
}

func TestPluginUsage(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	noTLS := writeFile(t, "plugin", "#!/bin/sh\n[ -z \"$PLUGIN_CLIENT_CERT\" ] || echo set mtls: false in the configuration >&2\n")
	if err := os.Chmod(noTLS, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"no program":      {[]string{"verify"}, exitUsage, "path of one program"},
		"two programs":    {[]string{"verify", "a", "b"}, exitUsage, "come after --"},
		"format":          {[]string{"verify", "a", "--format", "xml"}, exitUsage, "text, json or junit"},
		"missing program": {[]string{"verify", "./no-such"}, exitFailed, "no such file"},
		"missing file":    {[]string{"verify", os.Args[0], "--config", "no-such.yaml"}, exitFailed, "no such file"},
		"bad file": {[]string{"verify", os.Args[0], "--config", writeFile(t, "v.yaml", "can: [heders]\ntopic: fixed\nredaer: []\n")}, exitConfig,
			`did you mean "headers"?`},
		"case":             {[]string{"verify", "a", "--case", "K99"}, exitUsage, "--case K99 is not known; they are V1 to V12 and K1 to K34"},
		"info without tls": {[]string{"info", noTLS}, exitFailed, "for that, give --mtls=false"},
		"info of nothing":  {[]string{"info", "./no-such"}, exitFailed, "no-such"},
		"no name":          {[]string{"new", "--lang", "go"}, exitUsage, "needs one argument, the name of the plugin"},
		"capital":          {[]string{"new", "Mine", "--lang", "go"}, exitUsage, "not a valid name"},
		"two hyphens":      {[]string{"new", "my--sink", "--lang", "go"}, exitUsage, "not a valid name"},
		"path":             {[]string{"new", "../x", "--lang", "go"}, exitUsage, "not a valid name"},
		"long":             {[]string{"new", strings.Repeat("x", 41), "--lang", "go"}, exitUsage, "not a valid name"},
		"prefix":           {[]string{"new", "delaybridge-sink-x", "--lang", "go"}, exitUsage, "put before it: x"},
		"no language":      {[]string{"new", "mine"}, exitUsage, "give --lang: go, python, node"},
		"language":         {[]string{"new", "mine", "--lang", "rust"}, exitUsage, "known are go, python, node"},
		"not empty":        {[]string{"new", "mine", "--lang", "go", "--dir", full}, exitFailed, "is not empty; nothing was written"},
		"no checkout":      {[]string{"new", "mine", "--lang", "go", "--dir", full + "/a", "--delaybridge-dir", full}, exitUsage, "is not a checkout"},
		"checkout":         {[]string{"new", "mine", "--lang", "node", "--dir", full + "/a", "--delaybridge-dir", full}, exitUsage, "is for --lang go"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"plugin"}, test.args...), strings.NewReader(""), &stdout, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("code %d, want %d; says %q, want %q", code, test.code, &stderr, test.says)
			}
		})
	}
	if entries, _ := os.ReadDir(full); len(entries) != 1 {
		t.Errorf("something was written: %v", entries)
	}
}

func TestPluginInfo(t *testing.T) {
	path := badPlugin(t)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"plugin", "info", path, "--", "lax"}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("code %d: %s", code, &stderr)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(program))
	_, section, _ := strings.Cut(stdout.String(), "\n\n")
	want := "sinks:\n  bad:\n    type: plugin\n    config:\n      command: " + path + "\n      args: [lax]\n      sha256: " + sum +
		"\n      config:\n        password: \"${...}\" # of nothing\n"
	if section != want {
		t.Errorf("the section is\n%s\nwant\n%s", section, want)
	}
	// It is one that the bridge takes, once the password is there.
	file := writeFile(t, "c.yaml", "store: {redis: {url: \"redis://127.0.0.1:1\"}}\n"+strings.Replace(section, "${...}", "x", 1))
	stderr.Reset()
	if code := run(t.Context(), []string{"config", "check", file}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Errorf("config check: code %d: %s", code, &stderr)
	}
	stdout.Reset()
	if code := run(t.Context(), []string{"plugin", "info", path, "--format", "json"}, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("code %d: %s", code, &stderr)
	}
	var told kit.About
	if err := json.Unmarshal(stdout.Bytes(), &told); err != nil || told.Name != "bad" || told.SHA256 != sum || !told.Settings[0].Secret {
		t.Errorf("%v, %+v", err, told)
	}
}
