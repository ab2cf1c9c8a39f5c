//go:build unix

package servers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Java runs a program with the jars of a server ("kafka" or "rocketmq") of that
// version: the name of a class of theirs, or of a source file, and its
// arguments. It returns what the program prints, and ends the test if it fails.
func Java(t TB, server, version, stdin string, program ...string) string {
	t.Helper()
	out, err := TryJava(t, server, version, stdin, program...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// TryJava is Java that returns how the program has failed.
func TryJava(t TB, server, version, stdin string, program ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	argv := append(jvm(t, dir), "-Duser.home="+dir, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(jars(t, server, version), "*"))
	argv = append(argv, program...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("java %s: %w\n%s", program[0], err, out)
	}
	return string(out), nil
}
