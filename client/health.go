package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Health is what one instance of the bridge reports about itself.
type Health struct {
	Ready      bool   `json:"ready"`      // messages can be accepted
	Reason     string `json:"reason"`     // why not; empty if they can
	Durability string `json:"durability"` // level at which the bridge accepts
	Insecure   bool   `json:"insecure"`   // other machines can call it without a token
	// Sinks has those to which nothing can be delivered now, Sources those that are not
	// running, each with its state. Messages are still accepted.
	Sinks   map[string]string `json:"sinks"`
	Sources map[string]string `json:"sources"`
	// Configuration reports that the last reload failed; the bridge runs with the
	// configuration before. Empty if it did not.
	Configuration string `json:"configuration"`
}

const pathReady = "/readyz"

// Health returns the health of one instance. A bridge that reports that it is not ready
// is not an error.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var health Health
	err := c.ask(ctx, request{method: http.MethodGet, path: pathReady}, func(body []byte) error {
		err := json.Unmarshal(body, &health)
		if err == nil && health.Durability == "" {
			err = errors.New("not the health of a bridge")
		}
		return err
	})
	if err != nil {
		return Health{}, err
	}
	return health, nil
}
