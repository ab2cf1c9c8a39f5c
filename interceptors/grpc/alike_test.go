package grpclistener

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// both is a fixture whose store has an HTTP listener as well.
type both struct {
	*fixture
	http *httptest.Server
}

func newBoth(t *testing.T) both {
	f := newFixture(t, Config{}, "orders", "mails")
	listener, err := httplistener.New(httplistener.Config{}, interceptor(f.store, "orders", "mails"))
	if err != nil {
		t.Fatal(err)
	}
	b := both{f, httptest.NewServer(listener.Handler())}
	t.Cleanup(b.http.Close)
	return b
}

// ask sends an HTTP request and returns the problem's code, field and state.
func (b both) ask(method, path, body string) [3]string {
	b.Helper()
	r, err := http.NewRequestWithContext(b.ctx(), method, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	response, err := b.http.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	var problem struct{ Code, Field, State string }
	if err := json.NewDecoder(response.Body).Decode(&problem); err != nil {
		b.Fatal(err)
	}
	return [3]string{problem.Code, problem.Field, problem.State}
}

// words are the same of a gRPC error.
func (b both) words(err error) [3]string {
	r := refusalOf(b.T, err)
	return [3]string{r.reason, r.field, r.details["state"]}
}

// TestListenersRefuseAlike sends the same invalid messages through both listeners, and
// through each way that gRPC has.
func TestListenersRefuseAlike(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	at := func(d time.Duration) (string, *timestamppb.Timestamp) {
		when := time.Now().Add(d).Truncate(time.Second)
		return when.Format(time.RFC3339), timestamppb.New(when)
	}
	oldText, old := at(-25 * time.Hour)
	farText, far := at(2 * 365 * 24 * time.Hour)
	soonText, soon := at(time.Minute)
	type message = bridgev1.Message
	header := func(name, value string) func(*message) {
		return func(m *message) { m.Headers = append(m.Headers, &bridgev1.Header{Name: name, Value: []byte(value)}) }
	}
	tests := map[string]struct {
		json  string // members beside those of the base, which they replace
		proto func(*message)
		want  [2]string
	}{
		"id of 129":           {`"id":"` + long(129) + `"`, func(m *message) { m.Id = long(129) }, [2]string{"invalid", "id"}},
		"id with newline":     {`"id":"a\nb"`, func(m *message) { m.Id = "a\nb" }, [2]string{"invalid", "id"}},
		"id ..":               {`"id":".."`, func(m *message) { m.Id = ".." }, [2]string{"invalid", "id"}},
		"sink -x":             {`"sink":"-x"`, func(m *message) { m.Sink = "-x" }, [2]string{"invalid", "sink"}},
		"sink unknown":        {`"sink":"others"`, func(m *message) { m.Sink = "others" }, [2]string{"invalid", "sink"}},
		"sink missing":        {`"sink":null`, func(m *message) { m.Sink = "" }, [2]string{"invalid", "sink"}},
		"sink emoji":          {`"sink":"😀"`, func(m *message) { m.Sink = "😀" }, [2]string{"invalid", "sink"}},
		"topic missing":       {`"topic":null`, func(m *message) { m.Topic = "" }, [2]string{"invalid", "topic"}},
		"topic with space":    {`"topic":"a b"`, func(m *message) { m.Topic = "a b" }, [2]string{"invalid", "topic"}},
		"topic of 256":        {`"topic":"` + long(256) + `"`, func(m *message) { m.Topic = long(256) }, [2]string{"invalid", "topic"}},
		"key of 1025":         {`"key":"` + long(1025) + `"`, func(m *message) { m.Key = []byte(long(1025)) }, [2]string{"invalid", "key"}},
		"body over the limit": {`"body":"` + long(256<<10+1) + `"`, func(m *message) { m.Body = []byte(long(256<<10 + 1)) }, [2]string{"too_large", "body"}},
		"priority -1":         {`"priority":-1`, func(m *message) { m.Priority = -1 }, [2]string{"invalid", "priority"}},
		"priority 10":         {`"priority":10`, func(m *message) { m.Priority = 10 }, [2]string{"invalid", "priority"}},
		"neither time":        {`"delay":null`, func(m *message) { m.Delay = nil }, [2]string{"invalid", "deliver_at"}},
		"both times":          {`"deliver_at":"` + soonText + `"`, func(m *message) { m.DeliverAt = soon }, [2]string{"invalid", "deliver_at"}},
		"delay -1s":           {`"delay":"-1s"`, func(m *message) { m.Delay = durationpb.New(-time.Second) }, [2]string{"invalid", "delay"}},
		"delay of 366 days":   {`"delay":"366d"`, func(m *message) { m.Delay = durationpb.New(366 * 24 * time.Hour) }, [2]string{"invalid", "delay"}},
		"delay uncountable":   {`"delay":"99999999999w"`, func(m *message) { m.Delay = &durationpb.Duration{Seconds: 1 << 62} }, [2]string{"invalid", "delay"}},
		"25 hours ago":        {`"delay":null,"deliver_at":"` + oldText + `"`, func(m *message) { m.Delay, m.DeliverAt = nil, old }, [2]string{"invalid", "deliver_at"}},
		"two years ahead":     {`"delay":null,"deliver_at":"` + farText + `"`, func(m *message) { m.Delay, m.DeliverAt = nil, far }, [2]string{"invalid", "deliver_at"}},
		"before 1970":         {`"delay":null,"deliver_at":"1969-12-31T23:59:59Z"`, func(m *message) { m.Delay, m.DeliverAt = nil, &timestamppb.Timestamp{Seconds: -1} }, [2]string{"invalid", "deliver_at"}},
		"the year one":        {`"delay":null,"deliver_at":"0001-01-01T00:00:00Z"`, func(m *message) { m.Delay, m.DeliverAt = nil, timestamppb.New(time.Time{}) }, [2]string{"invalid", "deliver_at"}},
		"ttl 0":               {`"ttl":"0s"`, func(m *message) { m.Ttl = &durationpb.Duration{} }, [2]string{"invalid", "ttl"}},
		"ttl over too early":  {`"ttl":"30m"`, func(m *message) { m.Ttl = durationpb.New(30 * time.Minute) }, [2]string{"invalid", "ttl"}},
		"expires too early":   {`"expires_at":"` + soonText + `"`, func(m *message) { m.ExpiresAt = soon }, [2]string{"invalid", "expires_at"}},
		"both expiries":       {`"ttl":"2h","expires_at":"` + farText + `"`, func(m *message) { m.Ttl, m.ExpiresAt = durationpb.New(2*time.Hour), far }, [2]string{"invalid", "expires_at"}},
		"reserved header":     {`"headers":{"DelayBridge_Id":"x"}`, header("DelayBridge_Id", "x"), [2]string{"invalid", "headers"}},
		"header name empty":   {`"headers":{"":"x"}`, header("", "x"), [2]string{"invalid", "headers"}},
		"header name with LF": {`"headers":{"a\nb":"x"}`, header("a\nb", "x"), [2]string{"invalid", "headers"}},
		"headers too large":   {`"headers":{"a":"` + long(8<<10) + `"}`, header("a", long(8<<10)), [2]string{"invalid", "headers"}},
		"headers differ in case": {`"headers":{"A":"1","a":"2"}`, func(m *message) { header("A", "1")(m); header("a", "2")(m) },
			[2]string{"invalid", "headers"}},
		"65 headers": {`"headers":{"a":[` + strings.TrimSuffix(strings.Repeat(`"",`, 65), ",") + `]}`, func(m *message) {
			for range 65 {
				header("a", "")(m)
			}
		}, [2]string{"invalid", "headers"}},
		"option of the engine": {`"options":{"retry.max_attempts":"-1"}`, func(m *message) { m.Options = map[string]string{"retry.max_attempts": "-1"} },
			[2]string{"invalid", "options.retry.max_attempts"}},
		"option with bad name": {`"options":{"a b":"1"}`, func(m *message) { m.Options = map[string]string{"a b": "1"} }, [2]string{"invalid", "options"}},
		"hop of 1001":          {`"headers":{"delaybridge-hop":"1000"}`, header("delaybridge-hop", "1000"), [2]string{"invalid", "headers"}},
		"hop that is none":     {`"headers":{"delaybridge-hop":"x"}`, header("delaybridge-hop", "x"), [2]string{"invalid", "headers"}},
		"option too long":      {`"options":{"a":"` + long(1025) + `"}`, func(m *message) { m.Options = map[string]string{"a": long(1025)} }, [2]string{"invalid", "options.a"}},
	}
	b := newBoth(t)
	stream := b.stream()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b.T = t
			m := &bridgev1.Message{Sink: "orders", Topic: "t", Delay: durationpb.New(time.Hour)}
			test.proto(m)
			want := [3]string{test.want[0], test.want[1], ""}
			if got := b.ask("POST", "/v1/messages", merge(t, test.json)); got != want {
				t.Errorf("HTTP: got %v, want %v", got, want)
			}
			_, err := b.publish(m)
			if got, want := b.words(err), [3]string{want[0], "messages[0]." + want[1]}; got != want {
				t.Errorf("Publish: got %v, want %v", got, want)
			}
			results, err := b.publish(m, m)
			if err != nil {
				t.Fatal(err)
			}
			b.send(stream, 1, m)
			for _, r := range append(results, b.receive(stream).Results...) {
				if r.Error.GetCode() != want[0] || r.Error.GetField() != want[1] {
					t.Errorf("result: got %v, want %v", r, want)
				}
			}
		})
	}
	if parked, _ := b.store.seen(); len(parked) != 0 {
		t.Errorf("%d messages were parked", len(parked))
	}
}

// merge is the JSON of a good message with some members replaced; null takes one
// away.
func merge(t *testing.T, members string) string {
	t.Helper()
	all := map[string]json.RawMessage{"sink": json.RawMessage(`"orders"`), "topic": json.RawMessage(`"t"`), "delay": json.RawMessage(`"1h"`)}
	if err := json.Unmarshal([]byte("{"+members+"}"), &all); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestListenersAnswerAlike has other calls fail through both listeners. The fields have
// the names of each protocol.
func TestListenersAnswerAlike(t *testing.T) {
	b := newBoth(t)
	for _, sink := range []string{"orders", "mails"} {
		m := hourly("twice")
		m.Sink = sink
		b.mustPublish(m)
	}
	gone := hourly("gone")
	gone.Sink = "orders"
	b.mustPublish(gone)
	if _, err := b.client.Cancel(b.ctx(), &bridgev1.CancelRequest{Ref: ref("gone")}); err != nil {
		t.Fatal(err)
	}
	other := hourly("twice")
	other.Sink, other.Body = "orders", []byte("other")
	tests := map[string]struct {
		method, path, body string
		call               func() error
		want               [3]string
		field              string // in gRPC, if it is not that of HTTP
	}{
		"conflict": {"POST", "/v1/messages", `{"id":"twice","sink":"orders","topic":"t","delay":"1h","body":"other"}`,
			func() error { _, err := b.publish(other); return err }, [3]string{"conflict"}, ""},
		"ambiguous": {"DELETE", "/v1/messages/twice", "",
			func() error {
				_, err := b.client.Cancel(b.ctx(), &bridgev1.CancelRequest{Ref: ref("twice")})
				return err
			}, [3]string{"ambiguous"}, ""},
		"not found": {"GET", "/v1/messages/nobody", "",
			func() error { _, err := b.client.Get(b.ctx(), &bridgev1.GetRequest{Ref: ref("nobody")}); return err }, [3]string{"not_found"}, ""},
		"too late": {"DELETE", "/v1/messages/gone", "",
			func() error {
				_, err := b.client.Cancel(b.ctx(), &bridgev1.CancelRequest{Ref: ref("gone")})
				return err
			}, [3]string{"too_late", "", string(core.Cancelled)}, ""},
		"redrive what is not dead": {"POST", "/v1/dead/twice/redrive?sink=orders", "", func() error {
			_, err := b.client.Redrive(b.ctx(), &bridgev1.RedriveRequest{Ref: &bridgev1.Ref{Id: "twice", Sink: "orders"}})
			return err
		}, [3]string{"too_late", "", string(core.Scheduled)}, ""},
		"bad cursor": {"GET", "/v1/messages?cursor=x", "",
			func() error { _, err := b.client.List(b.ctx(), &bridgev1.ListRequest{PageToken: "x"}); return err }, [3]string{"bad_cursor"}, "page_token"},
		"id": {"GET", "/v1/messages/*", "",
			func() error { _, err := b.client.Get(b.ctx(), &bridgev1.GetRequest{Ref: ref("*")}); return err }, [3]string{"invalid", "id"}, "ref.id"},
		"limit": {"GET", "/v1/messages?limit=-1", "",
			func() error { _, err := b.client.List(b.ctx(), &bridgev1.ListRequest{PageSize: -1}); return err }, [3]string{"invalid", "limit"}, "page_size"},
		"sink": {"GET", "/v1/messages?sink=x", "",
			func() error {
				_, err := b.client.List(b.ctx(), &bridgev1.ListRequest{Sinks: []string{"x"}})
				return err
			}, [3]string{"invalid", "sink"}, "sinks"},
	}
	for name, test := range tests {
		if got := b.ask(test.method, test.path, test.body); got != test.want {
			t.Errorf("%s: HTTP: got %v, want %v", name, got, test.want)
		}
		test.want[1] = cmp.Or(test.field, test.want[1])
		if got := b.words(test.call()); got != test.want {
			t.Errorf("%s: gRPC: got %v, want %v", name, got, test.want)
		}
	}
}
