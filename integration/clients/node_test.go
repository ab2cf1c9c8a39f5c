//go:build unix

package clients

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

const stubOptions = "outputServices=grpc-js,env=node,esModuleInterop=true,importSuffix=.js,useOptionals=messages"

// TestNode generates clients from the descriptions of both APIs, compiles programs that
// use them, and runs these. Redocly's rules find nothing wrong in the OpenAPI document.
func TestNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	openAPI := absolute(t, "../../interceptors/http/openapi.yaml")
	if err := os.CopyFS(n.dir, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	n.run("npm ci --ignore-scripts --no-audit --no-fund")
	n.run("node lint.js " + openAPI)
	n.run("npx openapi-typescript " + openAPI + " --output generated/http.ts")
	n.generateStub()
	n.run("npx tsc")
	url, grpc := startBridge(t)
	wantSteps(t, n.run("node built/http.js "+url),
		"send", "publish", "batch", "get", "list", "reschedule", "cancel", "redrive", "stats",
		"error malformed", "error invalid", "error bad_cursor", "error not_found", "error conflict",
		"error too_late", "error ambiguous", "error too_large", "error unsupported_media_type")
	wantSteps(t, n.run("node built/grpc.js "+grpc),
		"publish", "batch", "get", "list", "reschedule", "cancel", "redrive", "stats",
		"error invalid", "error bad_cursor", "error not_found", "error conflict",
		"error too_late", "error ambiguous", "error too_large")
}

// TestTypeScriptGuide does what docs/clients/typescript.md says, byte for byte but for
// the URL of the bridge: first what sends a message, then with the rest of the program.
func TestTypeScriptGuide(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	url, _ := startBridge(t)
	commands, parts := readGuide(t, "typescript.md", url)
	n.run(commands["generate"])
	n.write("send.mts", parts[0])
	wantLines(t, n.run(commands["send"]), `order-42-reminder is due at 20\d\d-.*Z`)
	n.write("send.mts", strings.Join(parts, ""))
	wantLines(t, n.run(commands["send"]), `there is no such message`, `20\d\d-.*Z`, `b: delay: .*`,
		`order-43-reminder waits until 20\d\d-.*Z`, `memory`)
}

// node is a directory in which commands run.
type node struct {
	t   *testing.T
	dir string
}

func newNode(t *testing.T) node {
	t.Helper()
	if testing.Short() {
		t.Skip("fetches packages, and -short is set")
	}
	servers.Need(t, servers.HasProgram("npm") && servers.HasProgram("node"), "node and npm; run make deps")
	return node{t, t.TempDir()}
}

// run returns what the commands have printed.
func (n node) run(script string) string {
	n.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = n.dir, append(os.Environ(), "npm_config_prefer_offline=true") // what is in npm's cache is not asked for
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// generateStub runs the plugin of protoc that makes the gRPC client. The plugin reads
// compiled protocols, which the Go code has, so that there need be no protoc.
func (n node) generateStub() {
	n.t.Helper()
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String(stubOptions)}
	for _, file := range []protoreflect.FileDescriptor{ // each after those that it imports
		anypb.File_google_protobuf_any_proto, durationpb.File_google_protobuf_duration_proto,
		timestamppb.File_google_protobuf_timestamp_proto, status.File_google_rpc_status_proto,
		errdetails.File_google_rpc_error_details_proto, bridgev1.File_delaybridge_v1_bridge_proto,
	} {
		request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(file))
		request.FileToGenerate = append(request.FileToGenerate, file.Path())
	}
	in, err := proto.Marshal(request)
	if err != nil {
		n.t.Fatal(err)
	}
	plugin := exec.Command(filepath.Join(n.dir, "node_modules/.bin/protoc-gen-ts_proto"))
	plugin.Stdin, plugin.Stderr = bytes.NewReader(in), n.t.Output()
	out, err := plugin.Output()
	var response pluginpb.CodeGeneratorResponse
	if err == nil {
		err = proto.Unmarshal(out, &response)
	}
	if err != nil || response.GetError() != "" {
		n.t.Fatalf("protoc-gen-ts_proto: %v %s", err, response.GetError())
	}
	for _, file := range response.GetFile() {
		n.write("generated/"+file.GetName(), file.GetContent())
	}
}

func (n node) write(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		n.t.Fatal(err)
	}
}
