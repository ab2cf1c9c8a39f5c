package kit

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/sinks/suite"
)

// Result is the result of one check of the protocol or one case of the suite.
type Result struct {
	Group   string       `json:"group"` // protocol or delivery
	Name    string       `json:"name"`
	Status  suite.Status `json:"status"`
	Log     []string     `json:"log,omitempty"`
	Seconds float64      `json:"seconds"`
}

// Report has all results. It marshals to JSON.
type Report struct {
	Program  string  `json:"program"`
	SHA256   string  `json:"sha256"`
	Name     string  `json:"name,omitempty"`
	Version  string  `json:"version,omitempty"`
	Protocol int     `json:"protocol,omitempty"`
	Reader   bool    `json:"reader"` // a reader checked which messages arrived
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Skipped  int     `json:"skipped"`
	Seconds  float64 `json:"seconds"`

	Results []Result `json:"results"`
}

func (r *Report) add(result Result) {
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

// JUnit returns the report in JUnit's XML format for CI systems.
func (r *Report) JUnit() ([]byte, error) {
	text, err := xml.MarshalIndent(r.junit(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	return slices.Concat([]byte(xml.Header), text, []byte("\n")), nil
}

func (r *Report) junit() junitSuites {
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
