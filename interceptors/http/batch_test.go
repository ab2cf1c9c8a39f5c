package httplistener

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core/memstore"
)

func results(t *testing.T, a answer) []map[string]any {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	var results []map[string]any
	for line := range strings.Lines(a.text) {
		var result map[string]any
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		results = append(results, result)
	}
	return results
}

func TestBatchAnswersLineByLine(t *testing.T) {
	f := newFixture(t, Config{})
	f.mustStore(envelopeWith(`"id":"old","body":"x"`))
	lines := []struct {
		line   string
		status float64
		code   any
	}{
		{envelopeWith(`"id":"new"`), 201, nil},
		{`{`, 400, "malformed"},
		{envelopeWith(`"id":"old","body":"x"`), 200, nil},
		{``, 400, "malformed"},
		{envelopeWith(`"id":"old","body":"y"`), 409, "conflict"},
		{envelopeWith(`"id":"*"`), 400, "invalid"},
		{envelopeWith(`"body":"`+strings.Repeat("x", 256<<10+1)) + `"`, 400, "malformed"},
		{envelopeWith(`"body":"` + strings.Repeat("x", 256<<10+1) + `"`), 413, "too_large"},
		{envelopeWith(`"sink":"other"`), 400, "invalid"},
		{envelopeWith(`"id":"new"`), 200, nil},
		{envelopeWith(`"id":"last"`) + "\r", 201, nil},
	}
	var body []string
	for _, l := range lines {
		body = append(body, l.line)
	}
	got := results(t, f.do("POST", "/v1/messages/batch", strings.Join(body, "\n")+"\n", "Content-Type: application/x-ndjson"))
	if len(got) != len(lines) {
		t.Fatalf("%d lines in, %d out", len(lines), len(got))
	}
	for n, l := range lines {
		if got[n]["status"] != l.status || got[n]["code"] != l.code {
			t.Errorf("line %d: got %v, want %v %v", n+1, got[n], l.status, l.code)
		}
		if l.code != nil && got[n]["stored"] != false {
			t.Errorf("line %d: got %v", n+1, got[n])
		}
	}
	if got[0]["id"] != "new" || got[0]["sink"] != "orders" || got[9]["duplicate"] != true {
		t.Errorf("got %v, %v", got[0], got[9])
	}
	for _, id := range []string{"new", "old", "last"} {
		if a := f.do("GET", "/v1/messages/"+id, ""); a.status != 200 {
			t.Errorf("%s: %d", id, a.status)
		}
	}
}

const (
	asArray = "Content-Type: application/json"
	asLines = "Content-Type: application/x-ndjson"
)

// elements are the results of a batch that was sent as an array.
func elements(t *testing.T, a answer) (results []map[string]any) {
	t.Helper()
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	if err := json.Unmarshal([]byte(a.text), &results); err != nil {
		t.Fatalf("%s: %v", a.text, err)
	}
	return results
}

func TestBatchAnswersAnArrayWithAnArray(t *testing.T) {
	f := newFixture(t, Config{})
	tests := []struct {
		element string
		status  float64
		code    any
	}{
		{envelopeWith(`"id":"a","body":{"order":[1,"]"]}`), 201, nil},
		{envelopeWith("\n\t\"id\" : \"a\" , \"body\" : {\"order\":[1,\"]\"]}\r\n"), 200, nil},
		{envelopeWith(`"id":"a","body":"other"`), 409, "conflict"},
		{`null`, 400, "malformed"},
		{`12`, 400, "malformed"},
		{`"` + strings.ReplaceAll(envelopeWith(`"id":"s"`), `"`, `\"`) + `"`, 400, "malformed"},
		{`[]`, 400, "malformed"},
		{`[` + envelopeWith(`"id":"nested"`) + `,[{}]]`, 400, "malformed"},
		{`{}`, 400, "invalid"},
		{`{"unknown":[{"a":[1]}],"topic":"t"}`, 400, "invalid"},
		{`{"topic":{"a":"b"},"delay":"1h"}`, 400, "invalid"},
		{`{"topic":"t","delay":"1h","headers":[{"name":"n","value":{"deep":[[1]]}}]}`, 400, "invalid"},
		{`{"topic":"t","delay":"1h","options":{"a":[1,{}]},"body":{}}`, 400, "invalid"},
		{`{"id":"twice","id":"twice","topic":"t","delay":"1h"}`, 400, "invalid"},
		{envelopeWith(`"body":"\ud800"`), 400, "malformed"},
		{envelopeWith(`"body":"` + strings.Repeat("x", 256<<10+1) + `"`), 413, "too_large"},
		{envelopeWith(`"id":"last","body":null`), 201, nil},
	}
	var given []string
	for _, test := range tests {
		given = append(given, test.element)
	}
	got := elements(t, f.do("POST", "/v1/messages/batch", " [\n"+strings.Join(given, " ,\n")+"\n] \n", asArray))
	if len(got) != len(tests) {
		t.Fatalf("%d messages, %d results", len(tests), len(got))
	}
	for n, test := range tests {
		if got[n]["status"] != test.status || got[n]["code"] != test.code || (test.code != nil && got[n]["stored"] != false) {
			t.Errorf("%.60s: got %v, want %v %v", test.element, got[n], test.status, test.code)
		}
	}
	if got[1]["duplicate"] != true || got[16]["id"] != "last" {
		t.Errorf("got %v, %v", got[1], got[16])
	}
	if stored := f.do("GET", "/v1/messages/a", "").json; stored["body"] != `{"order":[1,"]"]}` {
		t.Errorf("got %v", stored)
	}
}

// Nothing of a batch is stored if the whole does not have the form that its
// Content-Type says.
func TestBatchThatIsNotOfItsForm(t *testing.T) {
	good, other := envelopeWith(`"id":"a"`), envelopeWith(`"id":"b"`)
	array := "[" + good + "," + other + "]"
	quoted := func(text string) string {
		q, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(q)
	}
	utf16 := func(text string) string {
		return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00"
	}
	tests := map[string]struct{ body, form, code string }{
		"one object as an array":         {good, asArray, "malformed"},
		"lines as an array":              {good + "\n" + other, asArray, "malformed"},
		"a quoted array":                 {quoted(array), asArray, "malformed"},
		"quoted lines as an array":       {quoted(good + "\n"), asArray, "malformed"},
		"null":                           {"null", asArray, "malformed"},
		"nothing":                        {"", asArray, "malformed"},
		"space":                          {strings.Repeat(" \n", 1<<20), asArray, "malformed"},
		"an empty array":                 {"[]", asArray, "invalid"},
		"an empty array with space":      {" [ \t\r\n ] ", asArray, "invalid"},
		"bytes after the array":          {array + "x", asArray, "malformed"},
		"a NUL after the array":          {array + "\x00", asArray, "malformed"},
		"two arrays":                     {array + array, asArray, "malformed"},
		"two arrays in lines":            {array + "\n" + array, asArray, "malformed"},
		"an array of lines":              {"[" + good + "\n" + other + "]", asArray, "malformed"},
		"a comma at the end":             {"[" + good + ",]", asArray, "malformed"},
		"a comma at the start":           {"[," + good + "]", asArray, "malformed"},
		"an open array":                  {"[" + good, asArray, "malformed"},
		"an open array with a comma":     {"[" + good + ",", asArray, "malformed"},
		"an open object":                 {"[" + good + "," + other[:len(other)-1], asArray, "malformed"},
		"an open string":                 {"[" + good + "," + `{"topic":"t`, asArray, "malformed"},
		"an array closed as an object":   {"[" + good + "}", asArray, "malformed"},
		"an object closed as an array":   {"[" + good + "," + other[:len(other)-1] + "]]", asArray, "malformed"},
		"no value":                       {"[" + good + ",nope]", asArray, "malformed"},
		"no value in an element":         {"[" + good + `,{"id":nope}]`, asArray, "malformed"},
		"broken after a refused member":  {"[" + good + `,{"unknown":[1,}]`, asArray, "malformed"},
		"broken after a refused element": {"[" + good + `,1 2]`, asArray, "malformed"},
		"too deep":                       {"[" + good + "," + strings.Repeat("[", 10_001), asArray, "malformed"},
		"a byte order mark":              {"\xef\xbb\xbf" + array, asArray, "malformed"},
		"UTF-16":                         {utf16(array), asArray, "malformed"},
		"one element is not UTF-8":       {"[" + good + "," + envelopeWith("\"body\":\"\xff\"") + "]", asArray, "malformed"},
		"UTF-16 in name":                 {array, asArray + "; charset=utf-16", "unsupported_media_type"},

		"an array as lines":                 {array, asLines, "malformed"},
		"an array as lines after space":     {" \r\n\t" + array, asLines, "malformed"},
		"an array over lines":               {"[\n" + good + "\n]", asLines, "malformed"},
		"an array of another name":          {array, "Content-Type: application/ndjson", "malformed"},
		"an array of no name":               {array, "Content-Type: ", "malformed"},
		"an array, then lines":              {"[]\n" + good, asLines, "malformed"},
		"quoted lines":                      {quoted(good + "\n" + other), asLines, "malformed"},
		"a quoted array as lines":           {quoted(array), asLines, "malformed"},
		"lines in Latin 1":                  {good, asLines + "; charset=latin1", "unsupported_media_type"},
		"an array as text":                  {array, "Content-Type: text/plain", "unsupported_media_type"},
		"lines as a stream of another kind": {good, "Content-Type: application/json-seq", "unsupported_media_type"},
		"an array under two types":          {array, "Content-Type: application/json, application/x-ndjson", "unsupported_media_type"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			status := 400
			if test.code == "unsupported_media_type" {
				status = 415
			}
			a := f.do("POST", "/v1/messages/batch", test.body, test.form)
			f.refused(a, status, test.code)
			if a.json["stored"] != false {
				t.Errorf("got %s", a.text)
			}
		})
	}
}

func TestBatchInEveryNameOfItsForm(t *testing.T) {
	one := envelopeWith(`"id":"a"`)
	for _, form := range []string{"application/json", "Application/JSON", "application/json; charset=utf-8", `application/json;charset="UTF-8"`} {
		if got := elements(t, newFixture(t, Config{}).do("POST", "/v1/messages/batch", "["+one+"]", "Content-Type: "+form)); got[0]["status"] != 201.0 {
			t.Errorf("%s: got %v", form, got)
		}
	}
	for _, form := range []string{"", "application/x-ndjson", "application/ndjson", "Application/X-NDJSON; charset=UTF-8"} {
		if got := results(t, newFixture(t, Config{}).do("POST", "/v1/messages/batch", one, "Content-Type: "+form)); got[0]["status"] != 201.0 {
			t.Errorf("%s: got %v", form, got)
		}
	}
}

// An array is taken if encoding/json takes it, and each of its elements if it would
// be alone.
func FuzzBatchArray(f *testing.F) {
	for _, seed := range []string{`[{"topic":"t","delay":"1h"}]`, ` [ {"topic":"t","delay":"1h","body":[1,{"a":2}]} , 1,null,"x",[[]],{"x":{"y":[1]},"z":2} ] `,
		`[1 2]`, `[nope]`, `[{"topic":nope}]`, `[{"topic":{"a":"\ud800"}},`, `[]`, `{}`, `[1]]`, "[\"\xff\"]", `[{"headers":[{"name":1,"value":{}}],"delay":5}]`} {
		f.Add([]byte(seed))
	}
	listener, err := New(Config{MaxBatch: 8}, interceptor(memstore.New(memstore.Config{}), "orders"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var elements []json.RawMessage
		valid := json.Unmarshal(text, &elements) == nil && utf8.Valid(text) && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < 9_000
		b := batch{server: listener, request: new(http.Request)}
		if err := b.decodeArray(bytes.Clone(text)); err != nil {
			if valid && len(elements) > 0 && len(elements) <= 8 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if len(b.problems) != len(elements) {
			t.Fatalf("%q has %d elements: %d results", text, len(elements), len(b.problems))
		}
		for n, element := range elements {
			if _, err := listener.decodeMessage(bytes.Clone(element)); (err == nil) != (b.problems[n] == nil) {
				t.Errorf("%q: in the array %v, alone %v", element, b.problems[n], err)
			}
		}
	})
}

// A connection that ends in the middle of an array stores nothing of it.
func TestBatchCutOff(t *testing.T) {
	f := newFixture(t, Config{})
	head := "POST /v1/messages/batch HTTP/1.1\r\nHost: localhost\r\n" + asArray + "\r\n"
	array := "[" + envelopeWith(`"id":"a"`) + "]"
	conn := f.dial()
	if _, err := fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(array)+10, array); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.refused(readAnswer(t, response), 400, "malformed")
	f.refused(f.raw(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nnot a size\r\n", head, len(array), array)), 400, "malformed")
}

func TestBatchLimits(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf(`{"id":"m%d","topic":"t","delay":"1h"}`, n) }
	many := func(n int) string {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintln(&lines, line(i))
		}
		return lines.String()
	}
	t.Run("500", func(t *testing.T) {
		f := newFixture(t, Config{})
		if got := results(t, f.do("POST", "/v1/messages/batch", many(500))); len(got) != 500 || got[499]["id"] != "m499" || got[499]["status"] != 201.0 {
			t.Errorf("got %d, last %v", len(got), got[len(got)-1])
		}
	})
	t.Run("501", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", many(501)), 400, "invalid")
	})
	t.Run("none", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", ""), 400, "invalid")
		if got := results(t, f.do("POST", "/v1/messages/batch", "\n")); len(got) != 1 || got[0]["code"] != "malformed" {
			t.Errorf("an empty line: %v", got)
		}
	})
	t.Run("4 MiB and a byte", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", line(1)+strings.Repeat(" ", 4<<20+1-len(line(1)))), 413, "too_large")
	})
	array := func(n int) string {
		return "[" + strings.ReplaceAll(strings.TrimSuffix(many(n), "\n"), "\n", ",") + "]"
	}
	t.Run("an array of 500", func(t *testing.T) {
		f := newFixture(t, Config{})
		if got := elements(t, f.do("POST", "/v1/messages/batch", array(500), asArray)); len(got) != 500 || got[499]["id"] != "m499" || got[499]["status"] != 201.0 {
			t.Errorf("got %d, last %v", len(got), got[len(got)-1])
		}
	})
	t.Run("an array of 501", func(t *testing.T) {
		f := newFixture(t, Config{})
		f.refused(f.do("POST", "/v1/messages/batch", array(501), asArray), 400, "invalid")
	})
	t.Run("an array of 4 MiB", func(t *testing.T) {
		f := newFixture(t, Config{})
		space := strings.Repeat(" ", 4<<20-len(array(1)))
		f.refused(f.do("POST", "/v1/messages/batch", array(1)+space+" ", asArray), 413, "too_large")
		if got := elements(t, f.do("POST", "/v1/messages/batch", array(1)+space, asArray)); got[0]["status"] != 201.0 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("configured", func(t *testing.T) {
		f := newFixture(t, Config{MaxBatch: 2})
		f.refused(f.do("POST", "/v1/messages/batch", many(3)), 400, "invalid")
		f.refused(f.do("POST", "/v1/messages/batch", array(3), asArray), 400, "invalid")
	})
}
