package core

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"
)

// Fleet is the ability of a Store to tell the instances that share it about each other.
// Both built-in stores have it.
type Fleet interface {
	// Announce has the store publish what report returns, again every few seconds while
	// this instance serves a sink or parks messages; it replaces the report before. The
	// store calls it in any goroutine, and publishes nothing if it returns more than
	// MaxReport bytes. Announce returns this instance's name. Two instances of one name
	// replace each other's reports.
	Announce(report func() []byte) (instance string)
	// Announced returns what the live instances have published last. One that has ended,
	// or has published nothing for half a minute or for as long as a lease lasts, is not
	// live any more.
	Announced(ctx context.Context) ([]Announcement, error)
}

// MaxReport is the maximum length of a report in bytes.
const MaxReport = 64 << 10

// Announcement is what one instance has published.
type Announcement struct {
	Instance string
	// Age is for how long this has been published, on the store's clock; negative if the
	// instance has published nothing, as one of another version may.
	Age    time.Duration
	Report []byte
}

// About is what an instance tells about itself, besides what it does.
type About struct {
	Version   string
	Config    string            // hash of its configuration
	Listeners map[string]string // addresses, by the listener's name
	// Sources returns the reports of its sources; nil if it has none.
	Sources func() []SourceReport
}

// Instance is one of the instances that share a store, as it has described itself.
type Instance struct {
	Name string `json:"-"`
	Self bool   `json:"-"` // this one
	// Age is as in Announcement; if it is negative, the fields below are empty.
	Age time.Duration `json:"-"`

	Version   string            `json:"version,omitempty"`
	Config    string            `json:"config,omitempty"`
	Listeners map[string]string `json:"listeners,omitempty"`
	Started   time.Time         `json:"started"` // on its own clock
	Sinks     []Work            `json:"sinks,omitempty"`
	Sources   []SourceReport    `json:"sources,omitempty"`
	// Omitted counts the sinks and sources that did not fit into the report.
	Omitted int `json:"omitted,omitempty"`
}

// Work is what one instance, or several together, do for one sink.
type Work struct {
	Sink     string `json:"sink"`
	Buckets  int    `json:"buckets,omitempty"` // that it owns
	InFlight int64  `json:"flight,omitempty"`  // taken and not yet settled
	Totals   Counts `json:"all,omitzero"`      // since it started
	Last1m   Recent `json:"1m,omitzero"`
	Last5m   Recent `json:"5m,omitzero"`
	Last60m  Recent `json:"60m,omitzero"`
	// Paused is the reason why the sink is paused, if it is, and PausedSince since when.
	Paused      string    `json:"paused,omitempty"`
	PausedSince time.Time `json:"since,omitzero"`

	// PausedClass is the class of the error that is the reason, and Details are the
	// Describer's details of the sink, nil if it has none. An instance knows both only of
	// itself.
	PausedClass Class             `json:"-"`
	Details     map[string]string `json:"-"`
}

// add adds the work of another instance.
func (w *Work) add(other Work) {
	w.Buckets += other.Buckets
	w.InFlight += other.InFlight
	w.Totals = w.Totals.combine(other.Totals, plus)
	w.Last1m.add(other.Last1m)
	w.Last5m.add(other.Last5m)
	w.Last60m.add(other.Last60m)
	if other.Paused != "" && (w.Paused == "" || other.PausedSince.Before(w.PausedSince)) {
		w.Paused, w.PausedClass, w.PausedSince = other.Paused, other.PausedClass, other.PausedSince
	}
	if other.Details != nil {
		w.Details = other.Details
	}
}

// maxReportedText bounds the texts of errors in a report.
const maxReportedText = 128

// self is what this instance knows of itself.
type self struct {
	name    string
	started time.Time
	about   atomic.Pointer[About]
}

// SetAbout sets what the instance tells about itself. It may be called again.
func (i *Interceptor) SetAbout(about About) { i.self.about.Store(&about) }

// Sources returns the reports of About.Sources.
func (i *Interceptor) Sources() []SourceReport {
	if about := i.self.about.Load(); about != nil && about.Sources != nil {
		return about.Sources()
	}
	return nil
}

// announce has the store announce this instance, if it is able to.
func (i *Interceptor) announce() {
	i.self.name = "local"
	if fleet, ok := Ability[Fleet](i.store); ok {
		i.self.name = fleet.Announce(i.report)
	}
}

// Local returns this instance as it is now, without asking the store.
func (i *Interceptor) Local() Instance {
	me := Instance{Name: i.self.name, Self: true, Started: i.self.started}
	if about := i.self.about.Load(); about != nil {
		me.Version, me.Config, me.Listeners = about.Version, about.Config, about.Listeners
	}
	setup := i.setup.Load()
	for _, name := range setup.ordered {
		me.Sinks = append(me.Sinks, setup.sinks[name].work())
	}
	me.Sources = i.Sources()
	return me
}

func (d *Dispatcher) work() Work {
	t := d.counts()
	w := Work{Sink: d.Name, Buckets: int(t.owned.Load()), InFlight: t.inFlight.Load(), Totals: t.counts(),
		Last1m: t.recent.read(last1m, t.counts), Last5m: t.recent.read(last5m, t.counts), Last60m: t.recent.read(last60m, t.counts)}
	w.Paused, w.PausedClass, w.PausedSince = d.breaker.paused()
	if describer, ok := Ability[Describer](d.Sink); ok {
		w.Details = describer.Describe()
	}
	return w
}

// report is what the store publishes. What does not fit is left out, the last first.
func (i *Interceptor) report() []byte {
	me := i.Local()
	for n := range me.Sinks {
		me.Sinks[n].Paused = Shorten(me.Sinks[n].Paused, maxReportedText)
	}
	for n := range me.Sources {
		me.Sources[n].Trouble = Shorten(me.Sources[n].Trouble, maxReportedText)
	}
	for {
		text, err := json.Marshal(me)
		switch {
		case err == nil && len(text) <= MaxReport:
			return text
		case err != nil || len(me.Sinks)+len(me.Sources) == 0:
			return nil // a time beyond the year 9999, or a version of 64 KiB
		case len(me.Sources) > len(me.Sinks):
			me.Omitted += (len(me.Sources) + 1) / 2
			me.Sources = me.Sources[:len(me.Sources)/2]
		default:
			me.Omitted += (len(me.Sinks) + 1) / 2
			me.Sinks = me.Sinks[:len(me.Sinks)/2]
		}
	}
}

// Instances returns the live instances that share the store, by name. This one is as it
// is now, the others as they have last described themselves; see Fleet.
func (i *Interceptor) Instances(ctx context.Context) ([]Instance, error) {
	all := []Instance{i.Local()}
	fleet, ok := Ability[Fleet](i.store)
	if !ok {
		return all, nil
	}
	announced, err := fleet.Announced(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range announced {
		if a.Instance != i.self.name {
			all = append(all, ReadReport(a))
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// ReadReport returns what an instance of any version has published. What can't be read
// counts as nothing.
func ReadReport(a Announcement) Instance {
	var told Instance
	if a.Age < 0 || json.Unmarshal(a.Report, &told) != nil {
		return Instance{Name: a.Instance, Age: -1}
	}
	told.Name, told.Age = a.Instance, a.Age
	return told
}
