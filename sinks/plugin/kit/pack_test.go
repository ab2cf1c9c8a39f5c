package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestPackedPythonStarts: whatever PYTHON is, the packed plugin is started by it.
func TestPackedPythonStarts(t *testing.T) {
	servers.Need(t, servers.HasProgram("make"), "make")
	interpreter := servers.Python()
	servers.Need(t, interpreter != "", "Python with grpcio and protobuf; run make deps")
	interpreter, err := exec.LookPath(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a b") // as the paths of virtual environments may be
	files, err := Project{Name: "packed", Language: "python"}.files()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "env/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + interpreter + " \"$@\"\n" // a link would hide the modules of some
	for _, name := range []string{"python3", "python3.99"} {
		if err := os.WriteFile(filepath.Join(dir, "env/bin", name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + filepath.Join(dir, "env/bin") + string(os.PathListSeparator) + os.Getenv("PATH")
	for name, assignment := range map[string][]string{
		"none": nil, "name": {"PYTHON=python3"}, "another name": {"PYTHON=python3.99"}, "path": {"PYTHON=" + interpreter},
		"relative": {"PYTHON=env/bin/python3"}, "options": {"PYTHON=python3 -X utf8"}, "env": {"PYTHON=/usr/bin/env python3"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("make", append([]string{"-B", "build"}, assignment...)...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("make: %v\n%s", err, out)
			}
			packed := exec.Command(filepath.Join(dir, "bin/delaybridge-sink-packed"))
			packed.Dir, packed.Env = "/", append(os.Environ(), path)
			out, _ := packed.CombinedOutput()
			if packed.ProcessState == nil || packed.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "This is a plugin of delaybridge") {
				t.Errorf("%v\n%s", packed.ProcessState, out)
			}
		})
	}
}
