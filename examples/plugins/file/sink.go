package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/delaybridge/delaybridge/core"
)

// sink appends to DIR/TOPIC.jsonl. A message is confirmed when it is on disk.
type sink struct {
	dir    string
	mu     sync.Mutex // held while writing
	closed bool
}

// line is a message in the file. A nil key, body or value is a null.
type line struct {
	ID      string   `json:"id"`
	Key     []byte   `json:"key_base64"`
	Headers []header `json:"headers"`
	Body    []byte   `json:"body_base64"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value_base64"`
}

func open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	var c struct {
		Dir string `json:"dir"`
	}
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, core.Invalidf(strings.Trim(name, `"`), "is not known; known is dir")
		}
		return nil, core.Invalidf("config", "is not an object with dir, a string")
	}
	if !filepath.IsAbs(c.Dir) {
		return nil, core.Invalidf("dir", "must be an absolute path")
	}
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return nil, core.Invalidf("dir", "is not a directory that exists")
	}
	return &sink{dir: c.Dir}, nil
}

const suffix = ".jsonl"

// Check refuses what would not become a file in the directory.
func (s *sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, s.check)
}

func (s *sink) check(m *core.Message) error {
	if strings.ContainsAny(m.Topic, "/\\\x00") || len(m.Topic)+len(suffix) > 255 {
		return core.Invalidf("topic", "must be usable as the name of a file")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		if !strings.HasPrefix(name, core.OptionPrefix) {
			return core.Invalidf("options."+name, "is not known; a file sink has no options")
		}
	}
	return nil
}

// Deliver writes the messages of each topic at once.
func (s *sink) Deliver(ctx context.Context, batch []*core.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("file sink is closed")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	results, topics := make(core.BatchError, len(batch)), map[string][]int{}
	for i, m := range batch {
		if results[i] = core.Classify(core.Permanent, s.check(m)); results[i] == nil {
			topics[m.Topic] = append(topics[m.Topic], i)
		}
	}
	for topic, messages := range topics {
		var lines bytes.Buffer
		for _, i := range messages {
			lines.Write(encode(batch[i]))
		}
		err := s.write(topic, lines.Bytes())
		for _, i := range messages {
			results[i] = err
		}
	}
	if !slices.ContainsFunc(results, func(err error) bool { return err != nil }) {
		return nil
	}
	return results
}

func encode(m *core.Message) []byte {
	l := line{ID: m.ID, Key: m.Key, Body: m.Body}
	for _, h := range m.DeliveredHeaders() {
		l.Headers = append(l.Headers, header(h))
	}
	text, _ := json.Marshal(l) // strings and bytes always have a JSON form
	return append(text, '\n')
}

// write appends all of the lines, or none, and has them on disk.
func (s *sink) write(topic string, lines []byte) error {
	file, err := os.OpenFile(filepath.Join(s.dir, topic+suffix), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return core.Classify(core.TopicBlocked, err)
	}
	if err != nil {
		return fmt.Errorf("open the file of the topic: %w", err)
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at the file of the topic: %w", err)
	}
	if _, err := file.Write(lines); err != nil {
		if undoErr := file.Truncate(before.Size()); undoErr != nil { // part of a line is there
			return core.Classify(core.Unknown, errors.Join(err, undoErr))
		}
		return fmt.Errorf("write to the file of the topic: %w", err)
	}
	if err := file.Sync(); err != nil {
		return core.Classify(core.Unknown, fmt.Errorf("have the file of the topic on disk: %w", err))
	}
	if before.Size() == 0 {
		return s.syncDir()
	}
	return nil
}

// syncDir has the name of a new file on disk too.
func (s *sink) syncDir() error {
	dir, err := os.Open(s.dir)
	if err != nil {
		return core.Classify(core.Unknown, fmt.Errorf("open the directory: %w", err))
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return core.Classify(core.Unknown, fmt.Errorf("have the directory on disk: %w", err))
	}
	return nil
}

// Close waits for Deliver, which is quick.
func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
