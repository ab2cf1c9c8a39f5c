//go:build unix

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOapiCodegen uses the client that oapi-codegen generates for Go.
func TestOapiCodegen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fetches and builds a generator, and -short is set")
	}
	description, err := filepath.Abs("../../interceptors/http/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/go")); err != nil {
		t.Fatal(err)
	}
	goCommand := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	goCommand("tool", "oapi-codegen", "-generate", "types,client", "-package", "main", "-o", "client.gen.go", description)
	url, _ := startBridge(t)
	wantSteps(t, goCommand("run", ".", url), "send", "get", "batch", "list in pages", "reschedule", "cancel", "redrive",
		"error invalid", "error bad_cursor", "error not_found", "error conflict", "error too_late", "error too_large",
		"error ambiguous", "additions")
}
