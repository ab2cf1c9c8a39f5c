// Command crashplugin is a plugin for a row of faults: it appends messages to the files
// of a directory, one for each topic, and ends without a word on one of topic crash.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin"
)

func main() {
	plugin.Serve(plugin.Definition{
		Name: "crashplugin", Version: "v1.0.0", Description: "Appends messages to files, and can't take one of topic crash.",
		Settings: []plugin.Setting{{Name: "dir", Description: "absolute path of the directory of the files", Required: true}},
		Open:     open,
	})
}

type sink struct {
	Dir string `json:"dir"`
}

func open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	s := &sink{}
	return s, json.Unmarshal(config, s)
}

type line struct {
	Key     []byte   `json:"key_base64"`
	Headers []header `json:"headers"`
	Body    []byte   `json:"body_base64"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value_base64"`
}

// Deliver writes nothing of a batch that it ends on.
func (s *sink) Deliver(_ context.Context, batch []*core.Message) error {
	if slices.ContainsFunc(batch, func(m *core.Message) bool { return m.Topic == "crash" }) {
		os.Exit(3)
	}
	lines := map[string]*bytes.Buffer{}
	for _, m := range batch {
		l := line{Key: m.Key, Body: m.Body}
		for _, h := range m.DeliveredHeaders() {
			l.Headers = append(l.Headers, header(h))
		}
		if lines[m.Topic] == nil {
			lines[m.Topic] = &bytes.Buffer{}
		}
		if err := json.NewEncoder(lines[m.Topic]).Encode(l); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
	}
	for topic, text := range lines {
		if err := s.append(topic, text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) append(topic string, text []byte) error {
	file, err := os.OpenFile(filepath.Join(s.Dir, topic+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the file of the topic: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		return core.Classify(core.Unknown, fmt.Errorf("write to the file of the topic: %w", err))
	}
	return nil
}

func (s *sink) Close() error { return nil }
