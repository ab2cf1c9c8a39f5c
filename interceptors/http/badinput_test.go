package httplistener

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Nothing of what is in these tables may reach the store.

func TestMalformedEnvelope(t *testing.T) {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	tests := map[string]string{
		"empty text":                  `""`,
		"null":                        `null`,
		"array":                       `[]`,
		"open object":                 `{`,
		"nothing but space":           " \n",
		"second value":                envelopeWith(`"id":"a"`) + `{}`,
		"second value after a line":   envelopeWith(`"id":"a"`) + "\n1",
		"NUL after the value":         envelopeWith(`"id":"a"`) + "\x00",
		"NUL in a string":             envelopeWith("\"body\":\"a\x00b\""),
		"raw line feed in a string":   envelopeWith("\"body\":\"a\nb\""),
		"byte order mark":             "\xef\xbb\xbf" + envelopeWith(`"id":"a"`),
		"UTF-16":                      "\xff\xfe{\x00}\x00",
		"invalid UTF-8":               envelopeWith("\"body\":\"\xff\""),
		"half of a surrogate pair":    envelopeWith(`"body":"\ud800"`),
		"two low surrogates":          envelopeWith(`"body":"\udc00\udc00"`),
		"high surrogate and a letter": envelopeWith(`"body":"\ud800\u0041"`),
		"unknown escape":              envelopeWith(`"body":"\x41"`),
		"short escape":                envelopeWith(`"body":"\u12"`),
		"trailing comma":              `{"topic":"t","delay":"1h",}`,
		"missing comma":               `{"topic":"t" "delay":"1h"}`,
		"missing colon":               `{"topic" "t"}`,
		"name without quotes":         `{topic:"t"}`,
		"single quotes":               `{'topic':'t'}`,
		"comment":                     `{"topic":"t",/**/"delay":"1h"}`,
		"NaN body":                    envelopeWith(`"body":NaN`),
		"number with leading zero":    envelopeWith(`"body":01`),
		"number without digits":       envelopeWith(`"body":-`),
		"number with an open point":   envelopeWith(`"body":1.`),
		"number with an open power":   envelopeWith(`"body":1e`),
		"priority NaN":                envelopeWith(`"priority":NaN`),
		"10,001 nested arrays":        envelopeWith(`"body":` + deep),
		"open arrays":                 envelopeWith(`"body":` + strings.Repeat("[", 10_001)),
		"open objects":                envelopeWith(`"body":` + strings.Repeat(`{"a":`, 10_001)),
		"open string":                 `{"topic":"`,
		"backslash at the end":        `{"topic":"\`,
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			a := f.do("POST", "/v1/messages", body)
			f.refused(a, 400, "malformed")
			if a.json["stored"] != false {
				t.Errorf("got %s", a.text)
			}
		})
	}
	f := newFixture(t, Config{})
	f.refused(f.do("POST", "/v1/messages", ""), 400, "malformed")
}

func TestInvalidEnvelope(t *testing.T) {
	past, ahead := time.Now().Add(-25*time.Hour).Format(time.RFC3339), time.Now().AddDate(2, 0, 0).Format(time.RFC3339)
	due := func(value string) string { return `{"topic":"t",` + value + `}` }
	tests := map[string]struct{ envelope, field string }{
		"unknown member":           {envelopeWith(`"retries":3`), "retries"},
		"member in another case":   {envelopeWith(`"Body":"x"`), "Body"},
		"member twice":             {envelopeWith(`"topic":"u"`), "topic"},
		"member twice, escaped":    {envelopeWith(`"\u0074opic":"u"`), "topic"},
		"member twice, first null": {envelopeWith(`"id":null,"id":"a"`), "id"},
		"text of a wrong type":     {`{"topic":1,"delay":"1h"}`, "topic"},

		"delay -1":                {due(`"delay":-1`), "delay"},
		"delay -1s":               {due(`"delay":"-1s"`), "delay"},
		"delay 1e400":             {due(`"delay":1e400`), "delay"},
		"delay 1.5":               {due(`"delay":1.5`), "delay"},
		`delay "5"`:               {due(`"delay":"5"`), "delay"},
		`delay ""`:                {due(`"delay":""`), "delay"},
		"delay of a year":         {due(`"delay":"P1Y"`), "delay"},
		"delay of a month":        {due(`"delay":"P1M"`), "delay"},
		"delay over the limit":    {due(`"delay":"366d"`), "delay"},
		"delay over any number":   {due(`"delay":"99999999999999w"`), "delay"},
		"deliver_at a number":     {due(`"deliver_at":1900000000`), "deliver_at"},
		"25 hours ago":            {due(`"deliver_at":"` + past + `"`), "deliver_at"},
		"year 0000":               {due(`"deliver_at":"0000-01-01T00:00:00Z"`), "deliver_at"},
		"year 0001":               {due(`"deliver_at":"0001-01-01T00:00:00Z"`), "deliver_at"},
		"year 9999":               {due(`"deliver_at":"9999-12-31T23:59:59Z"`), "deliver_at"},
		"year +12026":             {due(`"deliver_at":"+12026-01-01T00:00:00Z"`), "deliver_at"},
		"beyond the horizon":      {due(`"deliver_at":"` + ahead + `"`), "deliver_at"},
		"30 February":             {due(`"deliver_at":"2031-02-30T00:00:00Z"`), "deliver_at"},
		"second 60":               {due(`"deliver_at":"2030-12-31T23:59:60Z"`), "deliver_at"},
		"no offset":               {due(`"deliver_at":"2031-02-03T00:00:00"`), "deliver_at"},
		"both delay, deliver_at":  {due(`"delay":"1h","deliver_at":"2031-02-03T00:00:00Z"`), "deliver_at"},
		"neither":                 {`{"topic":"t"}`, "deliver_at"},
		"both null":               {due(`"delay":null,"deliver_at":null`), "deliver_at"},
		"both ttl, expires_at":    {envelopeWith(`"ttl":"2h","expires_at":"2031-02-03T00:00:00Z"`), "expires_at"},
		"ttl 0":                   {envelopeWith(`"ttl":"0s"`), "ttl"},
		"ttl over before due":     {envelopeWith(`"ttl":"30m"`), "ttl"},
		"expires_at the year one": {envelopeWith(`"expires_at":"0001-01-01T00:00:00Z"`), "expires_at"},

		"id *":            {envelopeWith(`"id":"*"`), "id"},
		"id ?":            {envelopeWith(`"id":"?"`), "id"},
		"id with newline": {envelopeWith(`"id":"a\nb"`), "id"},
		"id of 129 bytes": {envelopeWith(`"id":"` + strings.Repeat("a", 129) + `"`), "id"},
		"id empty":        {envelopeWith(`"id":""`), "id"},
		"id ..":           {envelopeWith(`"id":".."`), "id"},
		"id with braces":  {envelopeWith(`"id":"{orders:00}"`), "id"},

		"sink of 65 bytes":     {envelopeWith(`"sink":"` + strings.Repeat("a", 65) + `"`), "sink"},
		"sink empty":           {envelopeWith(`"sink":""`), "sink"},
		"sink -x":              {envelopeWith(`"sink":"-x"`), "sink"},
		"sink emoji":           {envelopeWith(`"sink":"😀"`), "sink"},
		"sink right to left":   {envelopeWith(`"sink":"orders\u202e"`), "sink"},
		"sink decomposed":      {envelopeWith(`"sink":"e\u0301"`), "sink"},
		"sink Cyrillic":        {envelopeWith(`"sink":"\u0430"`), "sink"},
		"sink with a colon":    {envelopeWith(`"sink":"a:b"`), "sink"},
		"sink with a slash":    {envelopeWith(`"sink":"a/b"`), "sink"},
		"sink that is unknown": {envelopeWith(`"sink":"others"`), "sink"},
		"topic empty":          {`{"topic":"","delay":"1h"}`, "topic"},
		"topic missing":        {`{"delay":"1h"}`, "topic"},
		"topic with space":     {`{"topic":"a b","delay":"1h"}`, "topic"},

		"header with CR":           {envelopeWith(`"headers":{"a":"x\ry"}`), "headers"},
		"header with LF":           {envelopeWith(`"headers":{"a":["x\ny"]}`), "headers"},
		"header with NUL":          {envelopeWith(`"headers":[{"name":"a","value":"\u0000"}]`), "headers"},
		"header name with LF":      {envelopeWith(`"headers":{"a\n":"x"}`), "headers"},
		"header name empty":        {envelopeWith(`"headers":{"":"x"}`), "headers"},
		"65 headers":               {envelopeWith(`"headers":` + manyHeaders(65)), "headers"},
		"12,000 headers":           {envelopeWith(`"headers":` + manyHeaders(12_000)), "headers"},
		"header of 8 KiB + 1":      {envelopeWith(`"headers":{"a":"` + strings.Repeat("x", 8<<10) + `"}`), "headers"},
		"reserved header":          {envelopeWith(`"headers":{"delaybridge-id":"x"}`), "headers"},
		"reserved, other case":     {envelopeWith(`"headers":{"DELAYBRIDGE_ID":"1"}`), "headers"},
		"headers differ in case":   {envelopeWith(`"headers":{"A":"1","a":"2"}`), "headers"},
		"elements differ in case":  {envelopeWith(`"headers":[{"name":"A","value":"1"},{"name":"a","value":"2"}]`), "headers"},
		"header name twice":        {envelopeWith(`"headers":{"a":"1","a":"2"}`), "headers"},
		"header without values":    {envelopeWith(`"headers":{"a":[]}`), "headers"},
		"header a number":          {envelopeWith(`"headers":{"a":1}`), "headers"},
		"headers a text":           {envelopeWith(`"headers":"a: b"`), "headers"},
		"element without value":    {envelopeWith(`"headers":[{"name":"a"}]`), "headers"},
		"element with two values":  {envelopeWith(`"headers":[{"name":"a","value":"x","value_base64":"eA=="}]`), "headers"},
		"element with two names":   {envelopeWith(`"headers":[{"name":"a","name":"b","value":"x"}]`), "headers"},
		"element with more":        {envelopeWith(`"headers":[{"name":"a","value":"x","type":"y"}]`), "headers"},
		"element not an object":    {envelopeWith(`"headers":["a"]`), "headers"},
		"body with bad padding":    {envelopeWith(`"body_base64":"AAE"`), "body_base64"},
		"body in URL base64":       {envelopeWith(`"body_base64":"_-8="`), "body_base64"},
		"body base64 with newline": {envelopeWith(`"body_base64":"AAEC\nAAEC"`), "body_base64"},
		"body base64 loose bits":   {envelopeWith(`"body_base64":"AAF="`), "body_base64"},
		"both bodies":              {envelopeWith(`"body":null,"body_base64":"AAEC"`), "body_base64"},
		"both keys":                {envelopeWith(`"key":"a","key_base64":"AAEC"`), "key_base64"},
		"key of 1,025 bytes":       {envelopeWith(`"key":"` + strings.Repeat("k", 1025) + `"`), "key"},

		`priority "5"`:          {envelopeWith(`"priority":"5"`), "priority"},
		"priority 1.5":          {envelopeWith(`"priority":1.5`), "priority"},
		"priority 1e400":        {envelopeWith(`"priority":1e400`), "priority"},
		"priority -1":           {envelopeWith(`"priority":-1`), "priority"},
		"priority 10":           {envelopeWith(`"priority":10`), "priority"},
		"option a number":       {envelopeWith(`"options":{"a":1}`), "options"},
		"option twice":          {envelopeWith(`"options":{"a":"1","a":"2"}`), "options"},
		"option with bad name":  {envelopeWith(`"options":{"a b":"1"}`), "options"},
		"options an array":      {envelopeWith(`"options":[]`), "options"},
		"option of the engine":  {envelopeWith(`"options":{"retry.max_attempts":"-1"}`), "options.retry.max_attempts"},
		"option value too long": {envelopeWith(`"options":{"a":"` + strings.Repeat("x", 1025) + `"}`), "options.a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, Config{})
			a := f.do("POST", "/v1/messages", test.envelope)
			f.refused(a, 400, "invalid")
			if a.json["field"] != test.field || a.json["stored"] != false {
				t.Errorf("got %s, want field %s", a.text, test.field)
			}
			if len(a.text) > 700 {
				t.Errorf("the answer repeats the request: %d bytes", len(a.text))
			}
		})
	}
}

func manyHeaders(n int) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = fmt.Sprintf(`{"name":"n%d","value":""}`, i)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

func TestThePastIsDueNow(t *testing.T) {
	f := newFixture(t, Config{})
	a := f.do("POST", "/v1/messages", `{"topic":"t","deliver_at":"`+time.Now().Add(-23*time.Hour).Format(time.RFC3339)+`"}`)
	if a.status != 201 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	at, err := time.Parse(time.RFC3339, a.json["deliver_at"].(string))
	if err != nil || time.Since(at) > time.Minute || time.Since(at) < -time.Second {
		t.Errorf("due at %s", at)
	}
}

func TestEchoIsBoundedAndEscaped(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("a", 65), strings.Repeat("\x00", 40), strings.Repeat("😀", 30), strings.Repeat("\xff", 200), strings.Repeat(`"`, 64), "a\r\nforged: b"} {
		got := echo(text)
		if len(got) > 64 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("echo(%q) = %s, %d bytes", text, got, len(got))
		}
	}
	if got := echo("short\n"); got != `"short\n"` {
		t.Errorf("got %s", got)
	}
}
