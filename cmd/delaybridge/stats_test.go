package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/delaybridge/delaybridge/client"
)

// TestStatsDetails: what a sink tells about itself comes out in order and printable.
func TestStatsDetails(t *testing.T) {
	const sink = `{"sink":"mails","scheduled":1,"since_start":{}%s}`
	answer := func(more string) *fake {
		return &fake{status: 200, contentType: "application/json", body: `{"durability":"memory","sinks":[` + strings.Replace(sink, "%s", more, 1) + `]}`}
	}
	code, plain, _ := ask(t, answer(""), "stats")
	if code != exitOK || strings.Contains(plain, "DETAILS") {
		t.Errorf("code %d: %s", code, plain)
	}
	code, stdout, _ := ask(t, answer(`,"details":{"version":"v1","plugin":"file","last_exit":"\u001b[2Jexit status 7"}`), "stats")
	want := plain + "\nSINK   DETAILS\nmails  last_exit=\\x1b[2Jexit status 7  plugin=file  version=v1\n"
	if code != exitOK || stdout != want {
		t.Errorf("code %d: got\n%swant\n%s", code, stdout, want)
	}
}

func TestStatsSources(t *testing.T) {
	answer := &fake{status: 200, contentType: "application/json", body: `{"durability":"memory","sinks":[],"sources":[` +
		`{"source":"orders","instance":"web-1","parked":12,"duplicates":1,"rejected":2,"retried":3,"lag":0,"state":"running"},` +
		`{"source":"new","instance":"web-2","parked":0,"duplicates":0,"rejected":0,"skipped":4,"retried":0,"state":"stopped","trouble":"the record at\ntopic t"}]}`}
	want := "\nSOURCE  INSTANCE  PARKED  DUPLICATES  REJECTED  SKIPPED  RETRIED  LAG      STATE    TROUBLE\n" +
		"orders  web-1     12      1           2         0        3        0        running  \n" +
		"new     web-2     0       0           0         4        0        unknown  stopped  the record at\\ntopic t\n"
	code, stdout, _ := ask(t, answer, "stats")
	if _, table, _ := strings.Cut(stdout, "PAUSED\n"); code != exitOK || table != want {
		t.Errorf("code %d: got\n%swant\n%s", code, table, want)
	}
}

// fleetStats is an answer in which several instances are counted.
const fleetStats = `{"durability":"memory","instances":2,"unreported":1,"sinks":[{"sink":"mails","scheduled":7,"buckets":16,"owned":16,` +
	`"since_start":{"accepted":9,"delivered":2},"last_1m":{"accepted":4,"delivered":1},"last_5m":{"lateness_ms":{"p50":1.5,"p99":2.5}},"paused":"no broker"}]}`

const (
	statsHead = "SINK   PARKED  DUE  DEAD  BUCKETS  OWNED  NEXT DUE  ACCEPTED  DELIVERED  RETRIED  IN/MIN  OUT/MIN  P50 LATE  P99 LATE  PAUSED\n"
	statsLine = "mails  7       0    0     16       16               9         2          0        4       1        1.5ms     2.5ms     no broker\n"
)

func TestStatsOfAFleet(t *testing.T) {
	f := &fake{status: 200, contentType: "application/json", body: fleetStats}
	want := statsHead + statsLine + "\nNot counted, as not described: 1 live instance.\n"
	if code, stdout, stderr := ask(t, f, "stats", "--instance", "web 1"); code != exitOK || stdout != want || f.asked[0] != "GET /v1/stats?instance=web+1" {
		t.Errorf("code %d, asked %v, %s: got\n%swant\n%s", code, f.asked, stderr, stdout, want)
	}
	for _, flags := range [][]string{{"--interval", "0s"}, {"--watch", "--interval", "-1s"}, {"--interval", "x"}} {
		if code, stdout, _ := ask(t, f, append([]string{"stats"}, flags...)...); code != exitUsage || stdout != "" {
			t.Errorf("%v: code %d, %s", flags, code, stdout)
		}
	}
}

// watched runs a watch until the bridge has been asked so often, and once more.
func watched(t *testing.T, asks int, answer func(n int) *fake, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n > asks {
			stop() // as Ctrl-C
		}
		answer(n).ServeHTTP(w, r)
	}))
	defer server.Close()
	t.Setenv(envURL, server.URL)
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"stats", "--watch", "--interval", "100ms"}, args...), nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestStatsWatch(t *testing.T) {
	good := func(int) *fake { return &fake{status: 200, contentType: "application/json", body: fleetStats} }
	code, stdout, stderr := watched(t, 3, good)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != exitOK || stderr != "" || len(lines) != 4 || !strings.HasPrefix(lines[0], "TIME\tSINK\tPARKED\t") {
		t.Fatalf("code %d, %s: %q", code, stderr, lines)
	}
	for _, line := range lines[1:] {
		if _, rest, _ := strings.Cut(line, "\t"); rest != "mails\t7\t0\t0\t16\t16\t\t9\t2\t0\t4\t1\t1.5ms\t2.5ms\tno broker" {
			t.Errorf("line %q", line)
		}
	}
	if code, stdout, _ := watched(t, 2, good, "-o", "jsonl"); code != exitOK || stdout != fleetStats+"\n"+fleetStats+"\n" {
		t.Errorf("code %d: %s", code, stdout)
	}
	broken := func(n int) *fake {
		if n == 2 {
			return &fake{status: 503, contentType: "application/problem+json", body: `{"status":503,"code":"unavailable","detail":"gone"}`}
		}
		return good(n)
	}
	code, stdout, stderr = watched(t, 3, broken)
	if code != exitOK || strings.Count(stdout, "\n") != 3 || stderr != "delaybridge: gone [unavailable]\n" {
		t.Errorf("code %d, %s: %s", code, stderr, stdout)
	}
	if code, _, stderr := watched(t, 3, func(int) *fake { return broken(2) }); code != exitUnreachable || strings.Count(stderr, "\n") != 1 {
		t.Errorf("never there: code %d, %s", code, stderr)
	}
}

// TestStatsWatchOnATerminal: the table is drawn over the one before.
func TestStatsWatchOnATerminal(t *testing.T) {
	var all client.Stats
	if err := json.Unmarshal([]byte(fleetStats), &all); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := &session{printer: printer{w: &out, width: 200}}
	if err := s.watched(all, time.Second, true); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(out.String(), "  3 instances, every 1s, Ctrl-C ends")
	want := "\x1b[K\n\x1b[K\n" + strings.ReplaceAll(statsHead+statsLine, "\n", "\x1b[K\n") + "\x1b[J"
	if !strings.HasPrefix(out.String(), "\x1b[H") || rest != want {
		t.Errorf("got %q", out.String())
	}
}

func TestInstancesAreShown(t *testing.T) {
	f := &fake{status: 200, contentType: "application/json", body: `{"instances":[{"instance":"old","self":false},` +
		`{"instance":"web-1","self":true,"age_ms":0,"version":"v1","config":"c0ffee","started_at":"2030-01-31T09:00:00Z","listeners":{"http":"[::]:7420","grpc":"[::]:7421"},"sinks":[` +
		`{"sink":"a","owned":8,"last_1m":{"accepted":3,"delivered":1},"last_5m":{"lateness_ms":{"p99":2}}},{"sink":"b","owned":7,"last_1m":{"accepted":4},"paused":"no\nbroker"}],` +
		`"sources":[{"source":"s","state":"retrying","trouble":"gone"}]},{"instance":"web-2","self":false,"age_ms":1234}]}`}
	want := "INSTANCE  AGE      VERSION  CONFIG  STARTED                   LISTENERS                      BUCKETS  IN/MIN  OUT/MIN  P99 LATE  TROUBLE\n" +
		"old       unknown" + strings.Repeat(" ", 112) + "has not described itself\n" +
		"web-1     now      v1       c0ffee  2030-01-31T09:00:00.000Z  grpc=[::]:7421 http=[::]:7420  15       7       1        2.0ms     sink b is paused: no\\nbroker; source s is retrying: gone\n" +
		"web-2     1.2s     " + strings.Repeat(" ", 74) + "0        0       0        0.0ms     \n"
	if code, stdout, stderr := ask(t, f, "instances"); code != exitOK || stdout != want {
		t.Errorf("code %d, %s: got\n%swant\n%s", code, stderr, stdout, want)
	}
}

func TestTimelineIsDrawn(t *testing.T) {
	f := &fake{status: 200, contentType: "application/json", body: `{"before":1000,"after":3,"steps":[{"at":"2030-01-31T09:00:00Z","due":0},` +
		`{"at":"2030-01-31T09:01:00Z","due":1},{"at":"2030-01-31T09:02:00Z","due":500},{"at":"2030-01-31T09:03:00Z","due":250}]}`}
	want := "before                    1000\n" +
		"2030-01-31T09:00:00.000Z     0\n" +
		"2030-01-31T09:01:00.000Z     1  █\n" +
		"2030-01-31T09:02:00.000Z   500  " + strings.Repeat("█", 48) + "\n" +
		"2030-01-31T09:03:00.000Z   250  " + strings.Repeat("█", 24) + "\n" +
		"after                        3\n"
	code, stdout, stderr := ask(t, f, "timeline", "--step", "1d", "--sink", "a", "--sink", "b", "--from", "2030-01-31T10:00:00+01:00")
	if code != exitOK || stdout != want || f.asked[0] != "GET /v1/timeline?from=2030-01-31T09%3A00%3A00Z&sink=a&sink=b&step=24h0m0s" {
		t.Errorf("code %d, asked %v, %s: got\n%swant\n%s", code, f.asked, stderr, stdout, want)
	}
	for _, flags := range [][]string{{"--step", "0s"}, {"--step", "-1s"}, {"--step", "1"}, {"--from", "x"}, {"--to", "x"}, {"x"}} {
		if code, stdout, _ := ask(t, f, append([]string{"timeline"}, flags...)...); code != exitUsage || stdout != "" {
			t.Errorf("%v: code %d, %s", flags, code, stdout)
		}
	}
	if got := bars(client.Timeline{Steps: []client.TimelineStep{{Due: 5}}}, 10); !strings.HasSuffix(got, "  5  █\nafter                     0\n") {
		t.Errorf("on a narrow terminal:\n%s", got)
	}
}
