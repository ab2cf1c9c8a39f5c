package client

import (
	"context"
	"net/url"
	"time"
)

// Stats are the counts of stored and processed messages.
type Stats struct {
	Durability string `json:"durability"` // level at which the bridge accepts
	Instances  int    `json:"instances"`  // whose work is counted
	// Unreported counts live instances that are not counted, because they have not
	// described themselves.
	Unreported int           `json:"unreported"`
	Sinks      []SinkStats   `json:"sinks"` // in the order of the configuration
	Sources    []SourceStats `json:"sources"`
}

// SinkStats counts the messages that are stored for a sink, and the work of the instances
// asked for.
type SinkStats struct {
	Scheduled int       `json:"scheduled"` // waiting, also between two attempts
	Due       int       `json:"due"`       // of these, due by now
	Retrying  int       `json:"retrying"`  // of Scheduled, those that have failed before
	Dead      int       `json:"dead"`
	Buckets   int       `json:"buckets"`
	NextDue   time.Time `json:"next_due"` // zero if nothing waits
	// Details that the sink of the instance that answered reports.
	Details map[string]string `json:"details"`
	SinkWork
}

// SinkWork is what one instance, or several together, do for a sink. Of several, counts
// are sums, each figure of lateness is the largest, and the pause is the longest.
type SinkWork struct {
	Sink        string    `json:"sink"`
	Owned       int       `json:"owned"`     // buckets
	InFlight    int       `json:"in_flight"` // taken and not yet settled
	Paused      string    `json:"paused"`    // why the sink is paused; empty if it is not
	PausedSince time.Time `json:"paused_since"`
	SinceStart  Counts    `json:"since_start"` // of each instance
	Last1m      Recent    `json:"last_1m"`
	Last5m      Recent    `json:"last_5m"`
	Last60m     Recent    `json:"last_60m"`
}

// Counts are numbers of messages of a sink.
type Counts struct {
	Accepted    uint64 `json:"accepted"`
	Republished uint64 `json:"republished"` // of Accepted, those that a consumer delayed again
	Repeated    uint64 `json:"repeated"`    // duplicates
	Refused     uint64 `json:"refused"`
	Delivered   uint64 `json:"delivered"`
	Retried     uint64 `json:"retried"`
	Unknown     uint64 `json:"unknown"` // attempts with unknown outcome
	Dead        uint64 `json:"dead"`
	Expired     uint64 `json:"expired"`
}

// Recent are the counts of the last minute, five minutes or hour.
type Recent struct {
	Counts
	LatenessMS Lateness `json:"lateness_ms"`
}

// Lateness is the lateness in milliseconds of the messages confirmed in a time; 0 if
// there were none.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SourceStats are the counts of one instance's source since it started, in records.
type SourceStats struct {
	Instance     string    `json:"instance"` // not in Instance.Sources
	Source       string    `json:"source"`
	Parked       uint64    `json:"parked"`
	Duplicates   uint64    `json:"duplicates"` // skipped, because their ID was accepted before
	Rejected     uint64    `json:"rejected"`   // sent to the reject target
	Skipped      uint64    `json:"skipped"`
	Retried      uint64    `json:"retried"`
	Lag          *int64    `json:"lag"`     // records not yet read; nil if unknown
	LagMS        *int64    `json:"lag_ms"`  // age of the record parked last where the source is furthest behind; nil if unknown
	State        string    `json:"state"`   // running, retrying or stopped
	Trouble      string    `json:"trouble"` // why it is not running; empty if it is
	TroubleSince time.Time `json:"trouble_since"`
}

// Stats returns the counts of all live instances of the bridge, or of the one named.
func (c *Client) Stats(ctx context.Context, instance string) (Stats, error) {
	query := make(url.Values)
	if instance != "" {
		query.Set("instance", instance)
	}
	var stats Stats
	err := c.read(ctx, withQuery("/v1/stats", query), &stats)
	return stats, err
}

// Instance is one of the instances that share a store, as it has described itself.
type Instance struct {
	Instance string `json:"instance"` // its name
	Self     bool   `json:"self"`     // it answered, and is described as it is now
	// AgeMS is how long ago it described itself, in milliseconds on the store's clock; nil
	// if it has not, as it is of another version. Then the fields below are empty.
	AgeMS     *int64            `json:"age_ms"`
	Version   string            `json:"version"`
	Config    string            `json:"config"`     // hash of its configuration file
	StartedAt time.Time         `json:"started_at"` // on its own clock
	Listeners map[string]string `json:"listeners"`  // addresses, by the listener's name
	Sinks     []SinkWork        `json:"sinks"`
	Sources   []SourceStats     `json:"sources"`
	Omitted   int               `json:"omitted"` // sinks and sources that did not fit into its description
}

// Instances returns the live instances of the bridge, by name.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	var answer struct {
		Instances []Instance `json:"instances"`
	}
	err := c.read(ctx, "/v1/instances", &answer)
	return answer.Instances, err
}
