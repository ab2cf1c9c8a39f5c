//go:build unix

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

const pythonPrograms = "testdata/python/"

// TestPython uses the client that openapi-python-client generates without a warning.
func TestPython(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	url, _ := startBridge(t)
	said := p.run("-m", "openapi_python_client", "generate", "--meta", "none", "--path", absolute(t, "../../interceptors/http/openapi.yaml"))
	if strings.Contains(said, "WARNING") || strings.Contains(said, "Unable") {
		t.Errorf("the generator does not understand all of the description:\n%s", said)
	}
	wantSteps(t, p.run(absolute(t, pythonPrograms+"use_http.py"), url),
		"send", "get", "batch", "list_pages", "reschedule", "cancel", "redrive", "stats",
		"error invalid topic", "error invalid limit", "error bad_cursor", "error not_found", "error conflict",
		"error too_late", "error ambiguous", "error too_large body")
}

// TestGRPCPython uses the client that grpcio-tools generates.
func TestGRPCPython(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	_, addr := startBridge(t)
	p.run("-m", "grpc_tools.protoc", "-I", absolute(t, "../../interceptors/grpc/proto"),
		"--python_out=.", "--grpc_python_out=.", "delaybridge/v1/bridge.proto")
	wantSteps(t, p.run(absolute(t, pythonPrograms+"use_grpc.py"), addr),
		"publish", "batch", "list_pages", "reschedule", "cancel", "redrive", "stats",
		"error invalid", "error invalid ref", "error bad_cursor", "error not_found", "error conflict",
		"error too_late", "error too_large", "error ambiguous")
}

// TestPythonGuide does what docs/clients/python.md says, byte for byte but for the URL of
// the bridge and the path of the checkout. What is not pinned there has the versions of
// requirements.txt.
func TestPythonGuide(t *testing.T) {
	t.Parallel()
	p := newPython(t)
	url, _ := startBridge(t)
	commands, parts := readGuide(t, "python.md", url)
	p.follows(parts[0], commands["generate"]+commands["send"], `order-42-reminder is due at 20\d\d-.*`)
	p.follows(strings.Join(parts, ""), ". .venv/bin/activate\n"+commands["grpc"]+commands["send"]+"ls delaybridge/v1",
		`there is no such message`, `moved to 20\d\d-.*`, `b: delay: .*`, `order-43-reminder waits until 20\d\d-.*`,
		`durability memory`, `bridge_pb2_grpc.py`)
}

// follows runs the commands with a program, and wants lines that match.
func (p python) follows(program, commands string, lines ...string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "send.py"), []byte(program), 0o600); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", commands)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "PIP_CONSTRAINT="+absolute(p.t, pythonPrograms+"requirements.txt"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v\n%s", err, out)
	}
	wantLines(p.t, string(out), lines...)
}

// python is an interpreter that has the packages of requirements.txt. It works in dir,
// and finds modules there.
type python struct {
	t                *testing.T
	dir, interpreter string
}

func newPython(t *testing.T) python {
	t.Helper()
	return python{t, t.TempDir(), servers.Venv(t, pythonPrograms+"requirements.txt")}
}

// run returns what the program has printed.
func (p python) run(args ...string) string {
	p.t.Helper()
	cmd := exec.Command(p.interpreter, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PYTHONPATH="+p.dir+":"+absolute(p.t, pythonPrograms), "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Dir(p.interpreter)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("python %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
