package kit

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/delaybridge/delaybridge/integration/servers"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

var update = flag.Bool("update", false, "write examples/plugins")

// TestExamplesAreTemplates: examples/plugins has what `plugin new` writes. With
// -update it is written.
func TestExamplesAreTemplates(t *testing.T) {
	for _, language := range []string{"python", "node"} {
		dir := filepath.Join("../../../examples/plugins", language)
		files, err := Project{Name: "jsonlines", Language: language}.files()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := writeFiles(dir, files); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
				t.Errorf("%s/%s is not what plugin new writes (%v); run go test ./sinks/plugin/kit -run TestExamplesAreTemplates -update", language, name, err)
			}
		}
		err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "__pycache__" || d.Name() == "bin") {
				return filepath.SkipDir // .gitignore leaves them out
			}
			name, _ := filepath.Rel(dir, path)
			if _, known := files[filepath.ToSlash(name)]; err == nil && !d.IsDir() && !known {
				t.Errorf("%s/%s is not of plugin new", language, name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestTemplatesHaveTheProtocol: what is written has the .proto file as it is.
func TestTemplatesHaveTheProtocol(t *testing.T) {
	want, err := os.ReadFile("../proto/delaybridge/sink/v1/sink.proto")
	if err != nil {
		t.Fatal(err)
	}
	for language, path := range map[string]string{"python": "plugin/sink.proto", "node": "sink.proto"} {
		files, err := Project{Name: "jsonlines", Language: language}.files()
		if err != nil || files[path] != string(want) {
			t.Errorf("%s of %s is not the protocol (%v)", path, language, err)
		}
	}
}

// TestTemplatesAreFilledIn: no placeholder is left, and scripts can be run.
func TestTemplatesAreFilledIn(t *testing.T) {
	for _, language := range Languages() {
		files, err := Project{Name: "mine", Language: language, Checkout: checkoutOf(language)}.files()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"README.md", "Makefile", "verify.yaml", "dev.yaml", ".gitignore", ".github/workflows/ci.yml"} {
			if files[name] == "" {
				t.Errorf("%s: no %s", language, name)
			}
		}
		for name, text := range files {
			if strings.Contains(text, "{{name}}") || strings.Contains(text, "{{require}}") || strings.HasSuffix(name, ".tmpl") || strings.Contains(name, "dot_") {
				t.Errorf("%s/%s: something is left to be filled in", language, name)
			}
			if !strings.HasSuffix(text, "\n") && text != "" {
				t.Errorf("%s/%s does not end with a line break", language, name)
			}
		}
	}
}

func checkoutOf(language string) string {
	if language == "go" {
		return "../../.."
	}
	return ""
}

func TestRequireRelease(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "\nrequire github.com/delaybridge/delaybridge v1.2.3\n", "devel": "", "devel-0123": "",
		"v0.0.0-20261121203346-cf23af7a013c": "", "v1.2.3+dirty": "",
	} {
		if got := requireRelease(version); got != want {
			t.Errorf("%s: %q, want %q", version, got, want)
		}
	}
}

// TestPythonHasTheProtocol: what is committed as sink_pb2.py is the protocol.
func TestPythonHasTheProtocol(t *testing.T) {
	interpreter := servers.Python()
	servers.Need(t, interpreter != "", "Python with grpcio and protobuf; run make deps")
	cmd := exec.Command(interpreter, "-B", "-c", "import sink_pb2; print(sink_pb2.DESCRIPTOR.serialized_pb.hex())")
	cmd.Dir = "templates/python/plugin"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(string(bytes.TrimSpace(out)))
	if err != nil {
		t.Fatal(err)
	}
	var got descriptorpb.FileDescriptorProto
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := protodesc.ToFileDescriptorProto(sinkv1.File_delaybridge_sink_v1_sink_proto)
	got.Name = want.Name
	notEverywhere := protocmp.IgnoreFields(&descriptorpb.FieldDescriptorProto{}, "json_name")
	if diff := cmp.Diff(want, &got, protocmp.Transform(), notEverywhere); diff != "" {
		t.Errorf("sink_pb2.py is of another protocol; run make proto in a plugin that plugin new has written (-protocol +python):\n%s", diff)
	}
}
