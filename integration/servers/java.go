//go:build unix

package servers

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// Java runs a program with the jars of a server ("kafka" or "rocketmq") of that
// version: the name of a class of theirs, or of a source file, and its
// arguments. It returns what the program prints, and ends the test if it fails.
func Java(t TB, server, version, stdin string, program ...string) string {
	t.Helper()
	dir := t.TempDir()
	argv := append(jvm(t, dir), "-Duser.home="+dir, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(jars(t, server, version), "*"))
	argv = append(argv, program...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("java %s: %v\n%s", program[0], err, out)
	}
	return string(out)
}
