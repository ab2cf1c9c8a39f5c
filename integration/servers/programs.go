//go:build unix

package servers

import "os/exec"

// Need ends the test unless ok, as where a server is missing.
func Need(t TB, ok bool, what string) {
	t.Helper()
	if !ok {
		unavailable(t, "missing: %s", what)
	}
}

// Python is an interpreter that has gRPC; empty: there is none.
func Python() string {
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(path, "-c", "import grpc, google.protobuf").Run() == nil {
			return path
		}
	}
	return ""
}

// HasProgram tells whether there is one of that name.
func HasProgram(name string) bool { _, err := exec.LookPath(name); return err == nil }
