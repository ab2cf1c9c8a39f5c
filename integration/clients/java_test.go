//go:build unix

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/integration/servers"
)

// javaBlock is a block of docs/clients/java.md, with the comment above it, if any: what
// it is (file, run, pom) and its name. Indented blocks are commands.
var javaBlock = regexp.MustCompile("(?m)(?:^<!-- (\\w+): (\\S+) -->\n\n)?(?:^```\\w+\n((?s:.*?))^```$|((?:^    .*\n)+))")

// TestJava does what docs/clients/java.md says, byte for byte but for the addresses of
// the bridge and the path of the checkout, and uses the clients that this makes.
func TestJava(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute, and -short is set")
	}
	servers.Need(t, servers.HasProgram("mvn") && servers.HasProgram("curl"), "Maven and curl; run make deps")
	project := newJavaProject(t)
	t.Run("HTTP", project.usesHTTP)
	t.Run("GRPC", project.usesGRPC)
}

// javaProject is the folder of somebody who follows the guide.
type javaProject struct {
	dir   string
	guide map[string]string // blocks by what they are and their name, such as "file pom.xml"
	rest  string            // the statements of the blocks without a name
}

func newJavaProject(t *testing.T) javaProject {
	t.Helper()
	text, err := os.ReadFile("../../docs/clients/java.md")
	if err != nil {
		t.Fatal(err)
	}
	project := javaProject{dir: t.TempDir(), guide: map[string]string{}}
	for _, m := range javaBlock.FindAllStringSubmatch(string(text), -1) {
		switch what, name, fenced, commands := m[1], m[2], m[3], m[4]; {
		case what != "":
			project.guide[what+" "+name] = fenced + commands
		case fenced != "":
			project.rest += "{\n" + fenced + "}\n"
		}
	}
	return project
}

func (p javaProject) usesHTTP(t *testing.T) {
	url, _ := startBridge(t)
	at := strings.NewReplacer("http://127.0.0.1:7420", url)
	p.sh(t, at.Replace(p.guide["run fetch"]))
	p.write(t, "pom.xml", p.guide["file pom.xml"])
	p.write(t, "src/main/java/Send.java", at.Replace(p.guide["file src/main/java/Send.java"]))
	p.write(t, "src/main/java/Rest.java", "import delaybridge.*;\nimport java.time.*;\nimport java.util.*;\n"+
		"public class Rest {\npublic static void main(String[] args) throws Exception {\n"+
		"var bridge = new ApiClient();\nbridge.updateBaseUri(args[0]);\n"+p.rest+"}\n}\n")
	p.copies(t, "Steps", "UseHTTP")
	if out := p.sh(t, p.guide["run send"]); !regexp.MustCompile(`(?m)^order-42-reminder is due at 20\d\d-`).MatchString(out) {
		t.Errorf("the program of the guide has not sent a message:\n%s", out)
	}
	if out := p.runs(t, "Rest", url); !strings.Contains(out, "b: delay: ") {
		t.Errorf("the rest of the guide has not been run:\n%s", out)
	}
	wantSteps(t, p.runs(t, "UseHTTP", url), "send", "get", "batch", "list in pages", "reschedule", "cancel", "redrive",
		"error invalid", "error bad_cursor", "error not_found", "error conflict", "error too_late", "error too_large",
		"error ambiguous", "additions")
}

func (p javaProject) usesGRPC(t *testing.T) {
	_, addr := startBridge(t)
	p.sh(t, strings.ReplaceAll(p.guide["run proto"], "~/delaybridge", absolute(t, "../..")))
	pom := p.guide["file pom.xml"]
	for _, list := range []string{"dependencies", "plugins"} {
		pom = strings.Replace(pom, "</"+list+">", p.guide["pom "+list]+"</"+list+">", 1)
	}
	p.write(t, "pom.xml", pom)
	p.write(t, "src/main/java/SendGRPC.java", strings.ReplaceAll(p.guide["file src/main/java/SendGRPC.java"], "127.0.0.1:7421", addr))
	p.copies(t, "Steps", "UseGRPC")
	if out := p.sh(t, p.guide["run grpc"]); !strings.Contains(out, "state: STATE_SCHEDULED") {
		t.Errorf("the program of the guide has not sent a message:\n%s", out)
	}
	wantSteps(t, p.runs(t, "UseGRPC", addr), "publish", "get", "batch", "list in pages", "reschedule", "cancel", "redrive",
		"stats", "error invalid", "error bad_cursor", "error not_found", "error conflict", "error too_late",
		"error too_large", "error ambiguous")
}

// copies puts programs of testdata into the project.
func (p javaProject) copies(t *testing.T, classes ...string) {
	t.Helper()
	for _, class := range classes {
		source, err := os.ReadFile("testdata/java/" + class + ".java")
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, "src/main/java/"+class+".java", string(source))
	}
}

// runs returns what a compiled program prints.
func (p javaProject) runs(t *testing.T, class, target string) string {
	t.Helper()
	return p.sh(t, "mvn -q exec:java -Dexec.mainClass="+class+" -Dexec.args="+target)
}

func (p javaProject) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p javaProject) sh(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "MAVEN_OPTS=-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "+os.Getenv("MAVEN_OPTS"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}
