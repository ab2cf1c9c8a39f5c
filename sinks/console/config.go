package console

import (
	"encoding/json"

	"github.com/delaybridge/delaybridge/internal/settings"
)

// decode reads a Config strictly. No configuration is an empty one.
func decode(config json.RawMessage) (Config, error) {
	var c Config
	err := settings.Decode(config, &c, "a console sink")
	return c, err
}
