package client

import (
	"context"
	"time"
)

// Stats counts what is stored and what was done.
type Stats struct {
	Durability string        `json:"durability"` // at which the bridge accepts
	Sinks      []SinkStats   `json:"sinks"`      // in the order of the configuration
	Sources    []SourceStats `json:"sources"`    // of the instance that answered
}

// SinkStats is what all instances have stored for a sink, and what the instance that
// answered has done.
type SinkStats struct {
	Sink        string            `json:"sink"`
	Scheduled   int               `json:"scheduled"` // waiting, also between two attempts
	Due         int               `json:"due"`       // of these, due by now
	Dead        int               `json:"dead"`
	Buckets     int               `json:"buckets"`
	Owned       int               `json:"owned"`    // buckets that some instance owns
	NextDue     time.Time         `json:"next_due"` // zero if nothing waits
	Paused      string            `json:"paused"`   // why this instance holds the sink back; empty if it does not
	PausedSince time.Time         `json:"paused_since"`
	Details     map[string]string `json:"details"` // what the sink tells about itself
	SinceStart  Totals            `json:"since_start"`
}

// Totals counts what one instance has done for a sink since it started.
type Totals struct {
	Accepted    uint64   `json:"accepted"`
	Republished uint64   `json:"republished"` // of Accepted, those that a consumer delayed again
	Repeated    uint64   `json:"repeated"`    // accepted before
	Refused     uint64   `json:"refused"`
	Delivered   uint64   `json:"delivered"`
	Retried     uint64   `json:"retried"`
	Unknown     uint64   `json:"unknown"` // attempts of which the outcome is unknown
	Dead        uint64   `json:"dead"`
	Expired     uint64   `json:"expired"`
	LatenessMS  Lateness `json:"lateness_ms"`
}

// Lateness is by how many milliseconds messages were confirmed after they were due, in
// the last five minutes; 0 if none was.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SourceStats is what a source of one instance has done since that started, in records.
type SourceStats struct {
	Source       string    `json:"source"`
	Parked       uint64    `json:"parked"`
	Duplicates   uint64    `json:"duplicates"` // passed over, as their ID was accepted before
	Rejected     uint64    `json:"rejected"`   // sent to the reject target
	Skipped      uint64    `json:"skipped"`
	Retried      uint64    `json:"retried"`
	Lag          *int64    `json:"lag"`     // records that wait in the source; nil if unknown
	State        string    `json:"state"`   // running, retrying or stopped
	Trouble      string    `json:"trouble"` // what holds it up; empty if nothing does
	TroubleSince time.Time `json:"trouble_since"`
}

// Stats asks one instance of the bridge for its counts.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := c.read(ctx, "/v1/stats", &stats)
	return stats, err
}
