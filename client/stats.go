package client

import (
	"context"
	"time"
)

// Stats are the counts of stored and processed messages.
type Stats struct {
	Durability string        `json:"durability"` // level at which the bridge accepts
	Sinks      []SinkStats   `json:"sinks"`      // in the order of the configuration
	Sources    []SourceStats `json:"sources"`    // of the instance that answered
}

// SinkStats counts the messages that all instances have stored for a sink, and the work
// of the instance that answered.
type SinkStats struct {
	Sink        string            `json:"sink"`
	Scheduled   int               `json:"scheduled"` // waiting, also between two attempts
	Due         int               `json:"due"`       // of these, due by now
	Dead        int               `json:"dead"`
	Buckets     int               `json:"buckets"`
	Owned       int               `json:"owned"`    // buckets that some instance owns
	NextDue     time.Time         `json:"next_due"` // zero if nothing waits
	Paused      string            `json:"paused"`   // why this instance has paused the sink; empty if it has not
	PausedSince time.Time         `json:"paused_since"`
	Details     map[string]string `json:"details"` // details that the sink reports
	SinceStart  Totals            `json:"since_start"`
}

// Totals are the counts of one instance for a sink since it started.
type Totals struct {
	Accepted    uint64   `json:"accepted"`
	Republished uint64   `json:"republished"` // of Accepted, those that a consumer delayed again
	Repeated    uint64   `json:"repeated"`    // duplicates
	Refused     uint64   `json:"refused"`
	Delivered   uint64   `json:"delivered"`
	Retried     uint64   `json:"retried"`
	Unknown     uint64   `json:"unknown"` // attempts with unknown outcome
	Dead        uint64   `json:"dead"`
	Expired     uint64   `json:"expired"`
	LatenessMS  Lateness `json:"lateness_ms"`
}

// Lateness is the lateness in milliseconds of the messages confirmed in the last five
// minutes; 0 if there were none.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SourceStats are the counts of one instance's source since it started, in records.
type SourceStats struct {
	Source       string    `json:"source"`
	Parked       uint64    `json:"parked"`
	Duplicates   uint64    `json:"duplicates"` // skipped, because their ID was accepted before
	Rejected     uint64    `json:"rejected"`   // sent to the reject target
	Skipped      uint64    `json:"skipped"`
	Retried      uint64    `json:"retried"`
	Lag          *int64    `json:"lag"`     // records not yet read; nil if unknown
	State        string    `json:"state"`   // running, retrying or stopped
	Trouble      string    `json:"trouble"` // why it is not running; empty if it is
	TroubleSince time.Time `json:"trouble_since"`
}

// Stats returns the counts of one instance of the bridge.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := c.read(ctx, "/v1/stats", &stats)
	return stats, err
}
