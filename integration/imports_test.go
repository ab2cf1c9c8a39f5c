// Package integration holds the tests that need more than one package, or a
// real server.
package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/delaybridge/delaybridge/"

// anything allows all imports but those of cmd, which nobody may import.
var anything = []string{""}

// importRules say what a package, or those below it, may import besides the
// standard library and what is below itself. The first that fits holds; names
// without a dot are ours. It is the direction of the arrows: cmd, then
// interceptors, sinks and redisstore, then core, then the standard library.
var importRules = []importRule{
	{"core/memstore", []string{"core"}},
	{"core/storetest", []string{"core", "core/memstore", "pgregory.net/rapid", "github.com/google/go-cmp"}},
	{"core/redisstore", []string{"core", "github.com/redis/go-redis/v9", "golang.org/x/sys"}},
	{"core", nil},
	{"client/internal/bridgetest", []string{"client", "core", "core/memstore", "interceptors/http"}},
	{"client/internal/delayheaders", []string{"client", "core", "interceptors/dialect"}},
	{"client/kafkadelay", []string{"client", "interceptors/dialect", "github.com/segmentio/kafka-go"}},
	{"client/amqpdelay", []string{"client", "interceptors/dialect", "github.com/rabbitmq/amqp091-go"}},
	{"client/rocketmqdelay", []string{"client", "interceptors/dialect", "github.com/apache/rocketmq-client-go/v2"}},
	{"client", nil},
	{"interceptors/dialect", []string{"core"}},
	{"interceptors/source/sourcetest", []string{"core", "core/memstore", "integration/poll"}},
	{"interceptors/source", []string{"core", "interceptors/dialect", "internal/apierror"}},
	{"internal/auth", nil},
	{"internal/failpoints", []string{"core"}},
	{"internal/events", []string{"core"}},
	{"internal/metrics", []string{"core", "internal/apierror", "github.com/prometheus/client_golang"}},
	{"internal/otlp/otlptest", []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/grpc", "google.golang.org/protobuf"}},
	{"internal/otlp", []string{"core", "internal/apierror", "go.opentelemetry.io/otel", "go.opentelemetry.io/contrib/bridges/prometheus",
		"github.com/prometheus/client_golang", "github.com/go-logr/logr"}},
	{"internal/settings", []string{"core"}},
	{"internal/brokers/kafka", []string{"core", "internal/settings", "internal/tlsfiles", "github.com/segmentio/kafka-go"}},
	{"internal/brokers/amqp", []string{"core", "internal/settings", "internal/tlsfiles", "github.com/rabbitmq/amqp091-go"}},
	{"internal/brokers/rocketmq", []string{"core", "internal/settings"}},
	{"internal/listener", nil},
	{"internal/apierror", []string{"core"}},
	{"interceptors/http", []string{"core", "interceptors/dialect", "internal/apierror", "internal/auth", "internal/events", "internal/listener", "internal/tlsfiles",
		"github.com/go-json-experiment/json/jsontext"}},
	{"interceptors/grpc", []string{"core", "internal/apierror", "internal/auth", "internal/listener", "internal/tlsfiles",
		"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc"}},
	{"interceptors/kafka", []string{"core", "interceptors/dialect", "interceptors/source", "internal/brokers/kafka", "internal/settings",
		"github.com/segmentio/kafka-go", "github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	{"interceptors/rocketmq", []string{"core", "interceptors/dialect", "interceptors/source", "internal/brokers/rocketmq", "internal/settings", "github.com/klauspost/compress", "github.com/pierrec/lz4"}},
	{"interceptors/amqp", []string{"core", "interceptors/dialect", "interceptors/source", "internal/brokers/amqp", "internal/settings", "github.com/rabbitmq/amqp091-go"}},
	{"sinks/console", []string{"core", "internal/settings"}},
	{"internal/tlsfiles", []string{"core"}},
	{"sinks/kafka", []string{"core", "internal/brokers/kafka", "internal/settings", "github.com/segmentio/kafka-go"}},
	{"sinks/rocketmq", []string{"core", "internal/brokers/rocketmq", "internal/settings", "github.com/apache/rocketmq-client-go/v2"}},
	{"sinks/amqp", []string{"core", "internal/brokers/amqp", "internal/settings", "github.com/rabbitmq/amqp091-go"}},
	{"sinks/plugin/plugintest", []string{"core", "sinks/plugin"}},
	{"sinks/plugin/kit", []string{"core", "sinks/plugin", "sinks/suite"}},
	{"sinks/plugin", []string{"core", "internal/settings", "github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog",
		"google.golang.org/grpc", "google.golang.org/protobuf"}},
	{"sinks/suite", []string{"core"}},
	{"sinks/sinktest", []string{"core", "sinks/suite"}},
	{"integration/poll", nil},
	{"integration/journal", nil},
	{"integration/servers", []string{"integration/journal", "integration/poll"}},
	{"integration", anything},
	{"examples/embedded", []string{"core", "core/memstore", "core/redisstore"}},
	{"examples/history", []string{"github.com/segmentio/kafka-go"}},
	{"examples/plugins", []string{"core", "sinks/plugin", "github.com/go-stomp/stomp/v3"}},
	{"cmd", anything},
}

type importRule struct {
	pkg     string
	imports []string
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func TestImportDirection(t *testing.T) {
	for _, p := range listPackages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		rule, ok := ruleOf(name)
		if !ok {
			t.Errorf("%s: no rule says what it may import", name)
			continue
		}
		for _, imported := range p.Imports {
			if !rule.allows(imported) {
				t.Errorf("%s imports %s, which it must not know", name, imported)
			}
		}
	}
}

// TestCoreIsStandardLibrary looks at all that core depends on, not only at what
// it imports itself.
func TestCoreIsStandardLibrary(t *testing.T) {
	packages := listPackages(t, "-deps", "./core")
	if len(packages) < 2 {
		t.Fatalf("listed %d packages", len(packages))
	}
	for _, p := range packages {
		if !p.Standard && p.ImportPath != module+"core" {
			t.Errorf("core depends on %s", p.ImportPath)
		}
	}
}

func TestImportRulesForbid(t *testing.T) {
	tests := []struct {
		pkg, imported string
		want          bool
	}{
		{"core", "fmt", true},
		{"core", "net/http", true},
		{"core", module + "core/redisstore", false},
		{"core", "github.com/redis/go-redis/v9", false},
		{"core/redisstore", module + "core", true},
		{"core/redisstore", module + "core/memstore", false},
		{"sinks/kafka", module + "core", true},
		{"sinks/kafka", module + "core/redisstore", false},
		{"sinks/kafka", module + "sinks/console", false},
		{"sinks/kafka", "github.com/segmentio/kafka-go/protocol", true},
		{"sinks/kafka", module + "internal/brokers/kafka", true},
		{"interceptors/kafka", module + "internal/brokers/kafka", true},
		{"internal/brokers/kafka", module + "sinks/kafka", false},
		{"sinks/kafka", "github.com/segmentio/kafka-gone", false},
		{"sinks/plugin/delivery", module + "sinks/plugin", true},
		{"sinks/plugin", module + "sinks/suite", false},
		{"sinks/plugin/kit", module + "cmd/delaybridge/config", false},
		{"integration/bench", module + "cmd/delaybridge/config", false},
		{"client", module + "core", false},
		{"client/kafkadelay", module + "core", false},
		{"client/kafkadelay", module + "client/internal/delayheaders", true},
		{"interceptors/kafka", module + "interceptors/source", true},
		{"interceptors/kafka", module + "interceptors/http", false},
		{"interceptors/source", "github.com/segmentio/kafka-go", false},
		{"interceptors/amqp", module + "internal/brokers/amqp", true},
		{"interceptors/amqp", module + "internal/brokers/rocketmq", false},
		{"internal/brokers/amqp", module + "interceptors/source", false},
		{"cmd/delaybridge", module + "cmd/delaybridge/config", true},
		{"cmd/delaybridge", module + "sinks/kafka", true},
	}
	for _, test := range tests {
		rule, ok := ruleOf(test.pkg)
		if got := ok && rule.allows(test.imported); got != test.want {
			t.Errorf("%s importing %s: allowed %t, want %t", test.pkg, test.imported, got, test.want)
		}
	}
}

func ruleOf(name string) (rule importRule, ok bool) {
	for _, rule := range importRules {
		if within(rule.pkg, name) {
			return rule, true
		}
	}
	return rule, false
}

// allows tells whether the rule's packages may import a path. "core" as an import
// is that package alone, since its subpackages are at its edges.
func (rule importRule) allows(path string) bool {
	name, ours := strings.CutPrefix(path, module)
	if !ours && isStandard(path) || ours && rule.pkg != "core" && within(rule.pkg, name) {
		return true
	}
	if ours && within("cmd", name) {
		return false
	}
	for _, i := range rule.imports {
		if i == "" || name == i || i != "core" && within(i, name) {
			return true
		}
	}
	return false
}

func within(parent, name string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}

// isStandard: only the paths of the standard library begin without a host.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func listPackages(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}
