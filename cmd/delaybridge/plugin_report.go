package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/delaybridge/delaybridge/sinks/suite"
)

// verifyResult is what came of one check or case.
type verifyResult struct {
	Group   string       `json:"group"` // protocol or delivery
	Name    string       `json:"name"`
	Status  suite.Status `json:"status"`
	Log     []string     `json:"log,omitempty"`
	Seconds float64      `json:"seconds"`
}

// verifyReport is what came of all.
type verifyReport struct {
	Program  string  `json:"program"`
	SHA256   string  `json:"sha256"`
	Name     string  `json:"name,omitempty"`
	Version  string  `json:"version,omitempty"`
	Protocol int     `json:"protocol,omitempty"`
	Reader   bool    `json:"reader"` // somebody looked at what arrived
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Skipped  int     `json:"skipped"`
	Seconds  float64 `json:"seconds"`

	Results []verifyResult `json:"results"`
}

func (r *verifyReport) add(group string, result verifyResult) {
	result.Group = group
	r.Results = append(r.Results, result)
	switch result.Status {
	case suite.Passed:
		r.Passed++
	case suite.Failed:
		r.Failed++
	default:
		r.Skipped++
	}
}

// verifyProgress prints results as they come.
type verifyProgress struct {
	printer
	quiet bool
	group string
}

// say prints for people: what can't be printed is not worth ending for.
func (p *verifyProgress) say(text string) {
	if !p.quiet {
		_ = p.print(text) // see above
	}
}

func (p *verifyProgress) title(program string) { p.say(escape(program) + "\n") }

func (p *verifyProgress) step(group string, r verifyResult) {
	if group != p.group {
		p.say("\n" + group + "\n")
		p.group = group
	}
	word := map[suite.Status]string{suite.Passed: "ok  ", suite.Failed: "FAIL", suite.Skipped: "skip"}[r.Status]
	line := fmt.Sprintf("  %s  %s (%.2f s)", word, r.Name, r.Seconds)
	if r.Status == suite.Skipped && len(r.Log) > 0 {
		line = fmt.Sprintf("  %s  %s: %s", word, r.Name, r.Log[len(r.Log)-1])
	}
	p.say(escape(line) + "\n")
	if r.Status == suite.Failed {
		for _, entry := range r.Log {
			for text := range strings.Lines(entry) {
				p.say("          " + escape(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\t", "  ")) + "\n")
			}
		}
	}
}

func (p *verifyProgress) summary(r *verifyReport) {
	p.say(fmt.Sprintf("\n%d passed, %d failed, %d skipped, in %.0f s\n", r.Passed, r.Failed, r.Skipped, r.Seconds))
	if !r.Reader {
		p.say("Without a reader in the file nobody has looked whether what was confirmed has arrived:\nthis is no proof that the plugin delivers anything.\n")
	}
}

func (r *verifyReport) write(out printer, format string) error {
	switch format {
	case "json":
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		return out.print(string(text) + "\n")
	case "junit":
		text, err := xml.MarshalIndent(r.junit(), "", "  ")
		if err != nil {
			return fmt.Errorf("encode the report: %w", err)
		}
		return out.print(xml.Header + string(text) + "\n")
	}
	progress := verifyProgress{printer: out}
	progress.title(r.Program)
	for _, result := range r.Results {
		progress.step(result.Group, result)
	}
	progress.summary(r)
	return nil
}

// The form of JUnit's reports, as CI systems read it.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Time    string     `xml:"time,attr"`
		Failure *junitText `xml:"failure"`
		Skipped *junitText `xml:"skipped"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func (r *verifyReport) junit() junitSuites {
	name := strings.TrimSpace(r.Name + " " + r.Version)
	if name == "" {
		name = r.Program
	}
	all := junitSuite{Name: name, Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped, Time: seconds(r.Seconds)}
	for _, result := range r.Results {
		c := junitCase{Class: result.Group, Name: result.Name, Time: seconds(result.Seconds)}
		text := &junitText{Text: strings.Join(result.Log, "\n")}
		if len(result.Log) > 0 {
			text.Message, _, _ = strings.Cut(result.Log[0], "\n")
		}
		switch result.Status {
		case suite.Failed:
			c.Failure = text
		case suite.Skipped:
			c.Skipped = text
		}
		all.Cases = append(all.Cases, c)
	}
	return junitSuites{Suites: []junitSuite{all}}
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
