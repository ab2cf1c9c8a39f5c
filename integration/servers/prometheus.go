//go:build unix

package servers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// PrometheusServer is one Prometheus.
type PrometheusServer struct {
	Node
	url string
}

const (
	prometheusReadyIn   = 60 * time.Second
	prometheusAnswersIn = 10 * time.Second
)

// Prometheus starts a Prometheus with the configuration, which ends with the test. It
// returns when the server answers.
func Prometheus(t TB, config string) *PrometheusServer {
	t.Helper()
	NeedPrometheus(t)
	dir, addr := t.TempDir(), loopback(freePorts(t, 1))
	p := &process{name: "prometheus", dir: dir, argv: []string{"prometheus", "--config.file=" + writeFile(t, dir, "prometheus.yml", config),
		"--storage.tsdb.path=" + dir + "/data", "--web.listen-address=" + addr}}
	t.Cleanup(p.kill)
	s := &PrometheusServer{url: "http://" + addr}
	s.Node = Node{t: t, what: "prometheus " + addr, process: p, readyIn: prometheusReadyIn,
		ready: func() error { return s.Get("query?query=1", nil) }}
	s.Start()
	return s
}

// NeedPrometheus ends the test unless there are prometheus and promtool.
func NeedPrometheus(t TB) {
	t.Helper()
	Need(t, HasProgram("prometheus") && HasProgram("promtool"), "prometheus and promtool, as in Debian's package prometheus; or run `make deps`")
}

// Query evaluates an expression now, and returns the number of time series that it has.
func (s *PrometheusServer) Query(expression string) (int, error) {
	var answer struct {
		Result []json.RawMessage `json:"result"`
	}
	err := s.Get("query?query="+url.QueryEscape(expression), &answer)
	return len(answer.Result), err
}

// Get asks the API for what path names and decodes the data of the answer into data, if
// that is not nil.
func (s *PrometheusServer) Get(path string, data any) error {
	client := http.Client{Timeout: prometheusAnswersIn}
	response, err := client.Get(s.url + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	if data == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, data)
}
