// Package console is a sink that prints messages, one line each, for experiments and
// for programs that read a pipe.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Format is the format of a printed message.
type Format string

// The formats.
const (
	Human Format = "human" // time, id, topic, key and the start of the body; the default
	JSON  Format = "json"  // an object with all fields of the message
)

// Config is the sink's configuration.
type Config struct {
	Format Format `json:"format"`
}

var (
	errClosed = errors.New("console sink is closed")
	// errInterrupted: the write went on when Deliver had to return.
	errInterrupted = errors.New("interrupted while writing")
)

// Open returns a Sink on standard output with a Config in JSON. It returns a
// *core.InvalidError if the Config is invalid.
func Open(_ context.Context, config json.RawMessage) (core.Sink, error) {
	c, err := decode(config)
	if err != nil {
		return nil, err
	}
	return New(os.Stdout, c.Format)
}

// Sink prints messages. It implements core.Sink and core.Checker.
type Sink struct {
	writer    io.Writer
	render    func(line []byte, m *core.Message, now time.Time) []byte
	turn      chan struct{} // holds a token while someone writes
	closed    chan struct{}
	closeOnce sync.Once
}

// New returns a Sink that writes to w, each batch in one Write. An empty format is
// Human; an unknown one is a *core.InvalidError. Close does not close w.
func New(w io.Writer, format Format) (*Sink, error) {
	s := &Sink{writer: w, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	switch format {
	case Human, "":
		s.render = human
	case JSON:
		s.render = object
	default:
		return nil, core.Invalidf("format", "must be human or json")
	}
	return s, nil
}

// Deliver prints the batch. A message counts as delivered when its whole line is
// written. If the writer blocks (a pager, a full pipe), Deliver returns at the end of
// ctx with class Unknown, and the write continues.
func (s *Sink) Deliver(ctx context.Context, batch []*core.Message) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	lines, ends := s.lines(batch)
	result := make(chan error, 1)
	go func() {
		n, err := s.writer.Write(lines)
		<-s.turn
		result <- results(ends, n, err)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return core.Classify(core.Unknown, fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx)))
	case <-s.closed:
		return core.Classify(core.Unknown, fmt.Errorf("%w: %w", errInterrupted, errClosed))
	}
}

// enter waits until nobody else writes.
func (s *Sink) enter(ctx context.Context) error {
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the writer: %w", context.Cause(ctx))
	case <-s.closed:
		return errClosed
	}
}

// lines renders the batch and reports where each line ends.
func (s *Sink) lines(batch []*core.Message) (lines []byte, ends []int) {
	now := time.Now()
	ends = make([]int, len(batch))
	for i, m := range batch {
		lines = append(s.render(lines, m, now), '\n')
		ends[i] = len(lines)
	}
	return lines, ends
}

// results says what became of lines of which n bytes were written. Those not
// begun are Blocked: they must wait for the writer and not spend attempts.
func results(ends []int, n int, err error) error {
	if err == nil && n == ends[len(ends)-1] {
		return nil
	}
	if err == nil {
		err = io.ErrShortWrite
	}
	err = fmt.Errorf("write to console: %w", err)
	if n <= 0 {
		return err
	}
	batch := make(core.BatchError, len(ends))
	begin := 0
	for i, end := range ends {
		switch {
		case n >= end:
		case n > begin:
			batch[i] = core.Classify(core.Unknown, err)
		default:
			batch[i] = core.Classify(core.Blocked, err)
		}
		begin = end
	}
	return batch
}

// Check refuses options; a console sink has none.
func (s *Sink) Check(ctx context.Context, batch []*core.Message) error {
	return core.CheckEach(ctx, batch, checkOptions)
}

func checkOptions(m *core.Message) error {
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		if !strings.HasPrefix(name, core.OptionPrefix) {
			return core.Invalidf("options."+name, "is not known; a console sink has no options")
		}
	}
	return nil
}

// Close makes calls of Deliver fail, also those in progress. A write that blocks
// continues until the writer accepts it.
func (s *Sink) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}
