//go:build unix

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/delaybridge/delaybridge/integration/servers"
)

const rulesFile = "../deploy/prometheus/rules.yml"

// alertRule is a rule of rules.yml.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(contents(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules
}

func contents(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dashboard is what the tests look at of a dashboard of Grafana.
type dashboard struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name string `json:"name"`
			Type string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID         int    `json:"id"`
	Title      string `json:"title"`
	Type       string `json:"type"`
	GridPos    struct{ X, Y, W, H int }
	Datasource struct{ Type, UID string }
	Targets    []struct{ RefID, Expr string }
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("../deploy/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d dashboards, %v", len(files), err)
	}
	all := make(map[string]dashboard)
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(contents(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// TestDashboardsAreWhole: they use the variable for their data source, and no panel
// covers another.
func TestDashboardsAreWhole(t *testing.T) {
	const columns, schemaOfGrafana10 = 24, 38
	uids := make(map[string]bool)
	for file, d := range dashboards(t) {
		if uids[d.UID] || d.UID == "" || d.Title == "" || d.SchemaVersion < schemaOfGrafana10 || d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: %+v", file, d)
		}
		uids[d.UID] = true
		ids, covered := make(map[int]bool), make(map[[2]int]string)
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${"+d.Templating.List[0].Name+"}" {
				t.Errorf("%s: %+v", file, p)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := covered[[2]int{x, y}]; other != "" || x >= columns {
						t.Fatalf("%s: %q is outside, or covers %q", file, p.Title, other)
					}
					covered[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// TestMonitoringNamesExist: a test in internal/metrics holds the table of the document to
// what there is.
func TestMonitoringNamesExist(t *testing.T) {
	exist := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(delaybridge_\\w+)` \\| (\\w+)").FindAllStringSubmatch(contents(t, "../docs/metrics.md"), -1) {
		name, kind := row[1], row[2]
		if exist[name] = true; kind == "histogram" {
			exist[name+"_bucket"], exist[name+"_sum"], exist[name+"_count"] = true, true, true
		}
	}
	files, err := filepath.Glob("../deploy/*/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		used := regexp.MustCompile(`\bdelaybridge_\w+`).FindAllString(contents(t, file), -1)
		if len(used) < 5 {
			t.Errorf("%s: found only %v", file, used)
		}
		for _, name := range used {
			if !exist[name] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// TestAlertsHaveRunbook: each alert has a severity and a section in docs/operations.md,
// to which it links, and each section has an alert.
func TestAlertsHaveRunbook(t *testing.T) {
	sections := make(map[string]bool)
	for _, found := range regexp.MustCompile(`(?m)^### (Delaybridge\w+)$`).FindAllStringSubmatch(contents(t, "../docs/operations.md"), -1) {
		sections[found[1]] = true
	}
	for _, r := range alertRules(t) {
		if !sections[r.Alert] {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
		}
		delete(sections, r.Alert)
		link := "https://github.com/delaybridge/delaybridge/blob/main/docs/operations.md#" + strings.ToLower(r.Alert)
		severity := r.Labels["severity"]
		if r.Annotations["runbook_url"] != link || r.Annotations["summary"] == "" || severity != "critical" && severity != "warning" {
			t.Errorf("%+v", r)
		}
	}
	for name := range sections {
		t.Errorf("docs/operations.md describes %s, which is no alert", name)
	}
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	servers.NeedPrometheus(t)
	tests := contents(t, "../deploy/prometheus/rules_test.yml")
	for _, r := range alertRules(t) {
		if strings.Count(tests, "alertname: "+r.Alert+"}\n") == 0 || strings.Count(tests, "alertname: "+r.Alert+"\n        exp_alerts:\n") == 0 {
			t.Errorf("rules_test.yml does not have %s fire and be quiet", r.Alert)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = filepath.Dir(rulesFile)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
