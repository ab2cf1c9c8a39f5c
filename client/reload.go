package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Reload is what one instance of the bridge has done when it read its configuration again.
type Reload struct {
	Generation int      `json:"generation"` // how many configurations it has applied, its first included
	Changes    []Change `json:"changes"`
	// Parked has each removed sink, and how many messages stay parked for it; negative is
	// unknown.
	Parked map[string]int `json:"parked"`
	// NotStopped is what was removed or replaced and has not stopped in time.
	NotStopped string `json:"not_stopped"`
}

// Change is one difference between two configurations. Secrets are shown as ***.
type Change struct {
	Key  string `json:"key"`    // such as sinks.kafka.timeout
	Kind string `json:"change"` // added, removed or changed
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Reload has one instance read its configuration again, and apply all of it or nothing;
// with dryRun, it only reports what would change. An error with the code reload_refused
// means that nothing has changed.
func (c *Client) Reload(ctx context.Context, dryRun bool) (Reload, error) {
	path := "/v1/reload"
	if dryRun {
		path += "?dry_run=true"
	}
	var done Reload
	err := c.ask(ctx, request{method: http.MethodPost, path: path}, func(body []byte) error {
		err := json.Unmarshal(body, &done)
		if err == nil && done.Generation == 0 {
			err = errors.New("not the answer of a bridge")
		}
		return err
	})
	if err != nil {
		return Reload{}, err
	}
	return done, nil
}
