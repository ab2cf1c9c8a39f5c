package main

import (
	"strings"
	"testing"
)

// TestStatsDetails: what a sink tells about itself comes out in order and printable.
func TestStatsDetails(t *testing.T) {
	const sink = `{"sink":"mails","scheduled":1,"since_start":{"lateness_ms":{}}%s}`
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
		`{"source":"orders","parked":12,"duplicates":1,"rejected":2,"retried":3,"lag":0,"state":"running"},` +
		`{"source":"new","parked":0,"duplicates":0,"rejected":0,"skipped":4,"retried":0,"state":"stopped","trouble":"the record at\ntopic t"}]}`}
	want := "\nSOURCE  PARKED  DUPLICATES  REJECTED  SKIPPED  RETRIED  LAG      STATE    TROUBLE\n" +
		"orders  12      1           2         0        3        0        running  \n" +
		"new     0       0           0         4        0        unknown  stopped  the record at\\ntopic t\n"
	code, stdout, _ := ask(t, answer, "stats")
	if _, table, _ := strings.Cut(stdout, "PAUSED\n"); code != exitOK || table != want {
		t.Errorf("code %d: got\n%swant\n%s", code, table, want)
	}
}
