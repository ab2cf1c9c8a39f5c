package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/delaybridge/delaybridge/client"
	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/integration/poll"
	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

func TestLookAndChange(t *testing.T) {
	ctx := context.Background()
	_, c := fixture(t)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	m := client.Message{ID: "a/b", Topic: "t", Key: []byte{0xff}, Body: []byte("x"), DeliverAt: at, ExpiresAt: at.Add(time.Hour),
		Priority: 3, Options: map[string]string{"o": "v"}, Headers: []client.Header{{Name: "h", Value: []byte{0xfe}}, {Name: "h"}}}
	if _, err := c.Publish(ctx, m); err != nil {
		t.Fatal(err)
	}
	ref := client.Ref{ID: m.ID, Sink: "orders", Key: m.Key}
	got, err := c.Get(ctx, ref)
	m.Sink = "orders"
	if diff := cmp.Diff(client.Entry{Message: m, State: client.Scheduled, Due: at, BodySize: 1}, got); diff != "" || err != nil {
		t.Errorf("got error %v, and the entry differs: %s", err, diff)
	}
	later := at.Add(time.Minute)
	moved, err := c.Reschedule(ctx, ref, client.When{At: later})
	if want := (client.Receipt{ID: m.ID, Sink: "orders", State: client.Scheduled, DeliverAt: later, Durability: "memory"}); err != nil || moved != want {
		t.Errorf("rescheduled: %+v, %v", moved, err)
	}
	if moved, err := c.Reschedule(ctx, ref, client.When{After: 30 * time.Minute}); err != nil || !moved.DeliverAt.Before(at) {
		t.Errorf("rescheduled: %+v, %v", moved, err)
	}
	if now, err := c.Reschedule(ctx, ref, client.When{After: client.Now}); err != nil || now.DeliverAt.After(time.Now()) {
		t.Errorf("rescheduled: %+v, %v", now, err)
	}
	if now, err := c.DeliverNow(ctx, ref); err != nil || now.DeliverAt.After(time.Now()) {
		t.Errorf("made due: %+v, %v", now, err)
	}
	if gone, err := c.Cancel(ctx, ref); err != nil || gone.State != client.Cancelled || gone.MayHaveBeenSent {
		t.Errorf("cancelled: %+v, %v", gone, err)
	}
	_, err = c.DeliverNow(ctx, ref)
	if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrTooLate) || e.State != client.Cancelled || e.Unknown {
		t.Errorf("after the cancel: %v", err)
	}
	if got, err := c.Get(ctx, ref); err != nil || got.State != client.Cancelled {
		t.Errorf("after the cancel: %+v, %v", got, err)
	}
}

func TestCallsByIDFail(t *testing.T) {
	ctx := context.Background()
	d, c := fixture(t)
	for _, key := range []string{"k1", "k2"} {
		if _, err := c.Publish(ctx, client.Message{ID: "two", Topic: "t", Key: []byte(key), Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	calls := map[string]func(client.Ref) error{
		"get":        func(r client.Ref) error { _, err := c.Get(ctx, r); return err },
		"cancel":     func(r client.Ref) error { _, err := c.Cancel(ctx, r); return err },
		"reschedule": func(r client.Ref) error { _, err := c.Reschedule(ctx, r, client.When{After: 1}); return err },
		"now":        func(r client.Ref) error { _, err := c.DeliverNow(ctx, r); return err },
		"redrive":    func(r client.Ref) error { _, err := c.Redrive(ctx, r); return err },
		"discard":    func(r client.Ref) error { _, err := c.Discard(ctx, r); return err },
	}
	for name, call := range calls {
		for _, test := range []struct {
			ref  client.Ref
			want error
		}{
			{client.Ref{ID: "none"}, client.ErrNotFound}, {client.Ref{ID: "two"}, client.ErrAmbiguous},
			{client.Ref{ID: "x", Sink: "none"}, client.ErrInvalid}, {client.Ref{ID: "a b/é"}, client.ErrInvalid},
			{client.Ref{}, client.ErrInvalid}, {client.Ref{ID: ".."}, client.ErrInvalid},
		} {
			if err := call(test.ref); !errors.Is(err, test.want) || errors.Is(err, client.ErrUnknown) {
				t.Errorf("%s of %+v: got %v", name, test.ref, err)
			}
		}
	}
	for name, when := range map[string]client.When{"two times": {At: time.Now(), After: 1}, "no time": {}} {
		if _, err := c.Reschedule(ctx, client.Ref{ID: "two", Key: []byte("k1")}, when); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, c); n != 2 {
		t.Errorf("%d are left after %v", n, d.asked())
	}
}

func TestList(t *testing.T) {
	ctx := context.Background()
	d := newListener(t, httplistener.Config{}, &core.Dispatcher{Name: "a"}, &core.Dispatcher{Name: "b"})
	c := d.client(t, client.Config{})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	var batch []client.Message
	for n := range 25 {
		batch = append(batch, client.Message{ID: string(rune('a' + n)), Sink: []string{"a", "b"}[n%2], Topic: []string{"t", "u", "v"}[n%3], DeliverAt: at.Add(time.Duration(n) * time.Second)})
	}
	if _, err := c.PublishBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	list := func(q client.Query, most int) (ids string) {
		for e, err := range c.List(ctx, q) {
			if err != nil {
				t.Fatal(err)
			}
			if ids += e.ID; len(ids) == most {
				break
			}
		}
		return ids
	}
	for _, test := range []struct {
		query client.Query
		most  int
		want  string
	}{
		{client.Query{}, 99, "abcdefghijklmnopqrstuvwxy"},
		{client.Query{PageSize: 4}, 99, "abcdefghijklmnopqrstuvwxy"},
		{client.Query{PageSize: 4}, 6, "abcdef"},
		{client.Query{Sinks: []string{"b"}, PageSize: 5}, 99, "bdfhjlnprtvx"},
		{client.Query{Sinks: []string{"a", "b"}, Topic: "t"}, 99, "adgjmpsvy"},
		{client.Query{DueAfter: at.Add(3 * time.Second), DueBefore: at.Add(6 * time.Second)}, 99, "def"},
		{client.Query{States: []client.State{client.Dead, client.Expired}}, 99, ""},
		{client.Query{Dead: true}, 99, ""},
	} {
		if got := list(test.query, test.most); got != test.want {
			t.Errorf("%+v: got %s", test.query, got)
		}
	}
	asked := len(d.asked())
	if list(client.Query{PageSize: 4}, 4); len(d.asked()) != asked+1 {
		t.Error("a page was asked for that nobody wanted")
	}
	page, err := c.ListPage(ctx, client.Query{PageSize: 4})
	if err != nil || len(page.Entries) != 4 || page.Next == "" {
		t.Errorf("got %+v, %v", page, err)
	}
	if got := list(client.Query{Cursor: page.Next}, 99); got != "efghijklmnopqrstuvwxy" {
		t.Errorf("after the first page: got %s", got)
	}
	errs := 0
	for _, err := range c.List(ctx, client.Query{Sinks: []string{"none"}}) {
		if errs++; !errors.Is(err, client.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	}
	if errs != 1 {
		t.Errorf("got %d errors", errs)
	}
}

// refusing is a sink that makes dead letters of all.
type refusing struct{}

func (refusing) Deliver(context.Context, []*core.Message) error {
	return core.Classify(core.Permanent, errors.New("no"))
}
func (refusing) Close() error { return nil }

func TestDeadLetters(t *testing.T) {
	ctx := context.Background()
	sink := &core.Dispatcher{Name: "orders", Sink: refusing{}}
	d := newListener(t, httplistener.Config{}, sink)
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- d.store.Serve(serving, "orders", sink.Run) }()
	defer func() { stop(); <-ended }()
	c := d.client(t, client.Config{})
	for _, id := range []string{"one", "two"} {
		if _, err := c.Publish(ctx, client.Message{ID: id, Topic: "t", Body: []byte("x"), Delay: client.Now}); err != nil {
			t.Fatal(err)
		}
		awaitDead(t, c, id, 1)
	}
	if _, err := c.Redrive(ctx, client.Ref{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	awaitDead(t, c, "one", 1)
	if got, err := c.Discard(ctx, client.Ref{ID: "two"}); err != nil || got.ID != "two" || got.State != client.Discarded {
		t.Errorf("got %+v, %v", got, err)
	}
	if e, err := c.Get(ctx, client.Ref{ID: "two"}); err != nil || e.State != client.Discarded {
		t.Errorf("got %+v, %v", e, err)
	}
	var left []string
	for e, err := range c.List(ctx, client.Query{Dead: true}) {
		if left = append(left, e.ID); err != nil || e.Reason == "" || e.Error == "" || e.Attempt != 1 || !e.MayHaveBeenSent {
			t.Errorf("got %+v, %v", e, err)
		}
	}
	if !slices.Equal(left, []string{"one"}) {
		t.Errorf("left are %v", left)
	}
}

// TestStats: every number that the listener tells is read.
func TestStats(t *testing.T) {
	const (
		at     = `"2030-01-31T09:00:00Z"`
		counts = `"accepted":1,"republished":2,"repeated":3,"refused":4,"delivered":5,"retried":6,"unknown":7,"dead":8,"expired":9`
		late   = `"lateness_ms":{"p50":1.5,"p99":2.5,"max":3.5}`
		work   = `"sink":"a","owned":5,"in_flight":6,"paused":"p","paused_since":` + at + `,"since_start":{` + counts +
			`},"last_1m":{` + counts + `,` + late + `},"last_5m":{` + counts + `,` + late + `},"last_60m":{` + counts + `,` + late + `}`
		source = `"source":"s","parked":1,"duplicates":2,"rejected":3,"skipped":4,"retried":5,"lag":6,"lag_ms":7,"state":"retrying","trouble":"t","trouble_since":` + at + `}`
		stats  = `{"durability":"fsync","instances":2,"unreported":1,"sinks":[{"scheduled":1,"due":2,"retrying":1,"dead":3,"buckets":4,"next_due":` + at +
			`,"details":{"k":"v"},` + work + `}],"sources":[{"instance":"i",` + source + `]}`
		instance = `{"instance":"i","self":true,"age_ms":7,"version":"v","config":"c","started_at":` + at + `,"listeners":{"http":"h"},"sinks":[{` + work +
			`}],"sources":[{"instance":"",` + source + `],"omitted":8}`
		timeline = `{"from":` + at + `,"to":` + at + `,"step_ms":1,"before":2,"after":3,"steps":[{"at":` + at + `,"due":4}]}`
	)
	d := newListener(t, httplistener.Config{}, &core.Dispatcher{Name: "a"}, &core.Dispatcher{Name: "b"})
	answers := map[string]string{"/v1/stats?instance=i+1": stats, "/v1/instances": `{"instances":[` + instance + `]}`,
		"/v1/timeline?from=2030-01-31T09%3A00%3A00Z&sink=a&sink=b&step=1m30s": timeline}
	d.first(len(answers), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answers[r.URL.String()])
	})
	var raw string
	c := d.client(t, client.Config{Answered: func(body []byte) { raw = string(body) }})
	same := func(got any, err error, want string) {
		t.Helper()
		again, jsonErr := json.Marshal(got)
		if err != nil || jsonErr != nil || string(again) != want {
			t.Errorf("got  %s\nwant %s, %v, %v of %s", again, want, err, jsonErr, raw)
		}
	}
	all, err := c.Stats(t.Context(), "i 1")
	same(all, err, stats)
	if raw != stats {
		t.Errorf("answered with %s", raw)
	}
	instances, err := c.Instances(t.Context())
	same(instances, err, `[`+instance+`]`)
	found, err := c.Timeline(t.Context(), client.TimelineQuery{Sinks: []string{"a", "b"}, Step: 90 * time.Second, From: time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)})
	same(found, err, timeline)
}

// TestStatsOfABridge: what the listener tells is what there is.
func TestStatsOfABridge(t *testing.T) {
	d := newListener(t, httplistener.Config{}, &core.Dispatcher{Name: "a"}, &core.Dispatcher{Name: "b"})
	c := d.client(t, client.Config{})
	if _, err := c.Publish(t.Context(), client.Message{Sink: "b", Topic: "t", Delay: 90 * time.Second}); err != nil {
		t.Fatal(err)
	}
	all, err := c.Stats(t.Context(), "")
	if err != nil || all.Durability != "memory" || all.Instances != 1 || len(all.Sinks) != 2 || !all.Sinks[0].NextDue.IsZero() ||
		all.Sinks[1].Sink != "b" || all.Sinks[1].NextDue.IsZero() || all.Sinks[1].SinceStart.Accepted != 1 || all.Sinks[1].Last60m.Accepted != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
	instances, err := c.Instances(t.Context())
	if err != nil || len(instances) != 1 || !instances[0].Self || instances[0].AgeMS == nil || instances[0].StartedAt.IsZero() || len(instances[0].Sinks) != 2 {
		t.Errorf("got %+v, %v", instances, err)
	}
	if _, err := c.Stats(t.Context(), "nobody"); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("of nobody: %v", err)
	}
	found, err := c.Timeline(t.Context(), client.TimelineQuery{})
	if err != nil || len(found.Steps) != 60 || found.Before+found.After != 0 || found.Steps[1].Due+found.Steps[2].Due != 1 {
		t.Errorf("got %+v, %v", found, err)
	}
	if _, err := c.Timeline(t.Context(), client.TimelineQuery{Step: -1}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("of a step back: %v", err)
	}
}

func awaitDead(t *testing.T, c *client.Client, id string, attempt int) {
	t.Helper()
	poll.Until(t, time.Minute, id+" is dead", func() bool {
		e, err := c.Get(context.Background(), client.Ref{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return e.State == client.Dead && e.Attempt == attempt
	})
}

// TestStandardLibraryOnly: whoever imports the client gets nothing with it.
func TestStandardLibraryOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(out)); !slices.Equal(got, []string{"github.com/delaybridge/delaybridge/client"}) {
		t.Errorf("the client depends on %v", got)
	}
}
