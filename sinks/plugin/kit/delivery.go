package kit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/suite"
)

// verifyRounds is how often a plugin is opened and closed to find leaks: each
// start costs tens to hundreds of milliseconds.
const verifyRounds = 10

// kit is what the file says, as the suite wants it.
func (v *verifier) kit(ctx context.Context) suite.Kit[suite.T] {
	s := v.target
	kit := suite.Kit[suite.T]{
		Open:     func(t suite.T) core.Sink { return v.mustOpen(ctx, t) },
		NewTopic: v.makeTopic,
		MaxBody:  s.MaxBody, ReadTimeout: s.ReadTimeout, Quiet: s.Quiet, Rounds: verifyRounds,
	}
	for _, name := range s.Can {
		kit.Can = append(kit.Can, suite.Capability(name))
	}
	if len(s.Reader) > 0 {
		kit.Consume = v.consume
	}
	if s.MissingTopic.Topic != "" {
		refusal := &suite.Refusal[suite.T]{Topic: func(suite.T) string { return s.MissingTopic.Topic }, Class: core.TopicBlocked}
		if s.MissingTopic.Class == core.Permanent.String() {
			refusal.Class = core.Permanent
		}
		kit.MissingTopic = refusal
	}
	for _, topic := range s.Hostile {
		kit.Hostile = append(kit.Hostile, &core.Message{Topic: topic})
	}
	for _, name := range s.Delays {
		kit.Delays = append(kit.Delays, core.Header{Name: name, Value: []byte("60000")})
	}
	return kit
}

// mustOpen does not let the context of a case end the plugin: Close does.
func (v *verifier) mustOpen(ctx context.Context, t suite.T) core.Sink {
	t.Helper()
	sink, err := v.open(context.WithoutCancel(ctx), v.target.Config)
	if err != nil {
		t.Fatalf("open the plugin: %v", err)
	}
	return sink
}

// commandTimeout is for a command that makes a topic.
const commandTimeout = 30 * time.Second

func (v *verifier) makeTopic(t suite.T) string {
	t.Helper()
	topic := v.newTopic()
	if len(v.target.MakeTopic) == 0 {
		return topic
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	args := filledIn(v.target.MakeTopic, strings.NewReplacer("{topic}", topic))
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("make_topic %s: %v\n%s", topic, err, core.Shorten(string(out), 2000))
	}
	return topic
}

// consume starts the reader for one topic, which is killed at the end of the case.
func (v *verifier) consume(t suite.T, topic string) suite.Reader {
	t.Helper()
	args := filledIn(v.target.Reader, strings.NewReplacer("{topic}", topic))
	r := &topicReader{lines: make(chan []byte), done: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("start the reader: %v", err)
	}
	cmd.Stderr = &r.stderr
	cmd.WaitDelay = time.Second // for what the reader has started
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the reader: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-r.done
	})
	go func() {
		defer close(r.done)
		r.err = r.scan(t.Context(), stdout)
		r.err = cmp.Or(r.err, cmd.Wait(), errReaderEnded)
	}()
	return r.next
}

// errReaderEnded is for a reader that does not stay, without a word.
var errReaderEnded = errors.New("exit code 0")

// topicReader takes apart what a reader prints.
type topicReader struct {
	lines  chan []byte
	stderr tail
	done   chan struct{} // closed when the reader has ended
	err    error         // why; to be read after done
}

// maxReaderLine is room for the largest message in base64.
const maxReaderLine = 128 << 20

// scan ends with ctx, when nobody reads any more.
func (r *topicReader) scan(ctx context.Context, stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 64<<10), maxReaderLine)
	for lines.Scan() {
		select {
		case r.lines <- bytes.Clone(lines.Bytes()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}

func (r *topicReader) next(ctx context.Context) (suite.Received, error) {
	select {
	case line := <-r.lines:
		return decodeReceived(line)
	case <-ctx.Done():
		return suite.Received{}, ctx.Err()
	case <-r.done:
		return suite.Received{}, fmt.Errorf("the reader has ended: %w; it says: %s", r.err, r.stderr.String())
	}
}

// readerLine is a message as a reader prints it; null is not the same as empty.
type readerLine struct {
	Body    []byte `json:"body_base64"`
	Key     []byte `json:"key_base64"`
	Headers []struct {
		Name  string `json:"name"`
		Value []byte `json:"value_base64"`
	} `json:"headers"`
	Lane string `json:"lane"`
}

func decodeReceived(line []byte) (suite.Received, error) {
	var l readerLine
	if err := json.Unmarshal(line, &l); err != nil {
		return suite.Received{}, fmt.Errorf("the reader printed %q: %w", core.Shorten(string(line), 200), err)
	}
	r := suite.Received{Body: l.Body, Key: l.Key, Lane: l.Lane}
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, core.Header{Name: h.Name, Value: h.Value})
	}
	return r, nil
}

// tail keeps the last bytes written to it. Safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
