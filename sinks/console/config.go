package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// decode reads a Config strictly. No configuration is an empty one.
func decode(config json.RawMessage) (Config, error) {
	var c Config
	if len(bytes.TrimSpace(config)) == 0 {
		return c, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return c, core.Invalidf("config", "has something after its end")
	}
	return c, nil
}

// explain names the field that a decoding error is about.
func explain(err error) *core.InvalidError {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return core.Invalidf("config", "must be an object, not %s", e.Value)
		}
		return core.Invalidf(e.Field, "can't be %s", e.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return core.Invalidf(strings.Trim(name, `"`), "is not known; known is format")
	}
	return core.Invalidf("config", "is not valid JSON: %v", err)
}
