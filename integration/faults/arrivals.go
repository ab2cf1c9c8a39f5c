//go:build unix

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// headerName is the producer's header that tells which message this is.
const headerName = "name"

// header is one of a message, as producers give it and the sink prints it.
type header struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// printed is a line of the console sink. The sink counts a message as delivered
// when its whole line is written, and what is written survives the process.
type printed struct {
	Time      time.Time `json:"time"`
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Key       string    `json:"key"`
	Headers   []header  `json:"headers"`
	Body      string    `json:"body"`
	DeliverAt time.Time `json:"deliver_at"`
	Attempt   int       `json:"attempt"`
}

func (p printed) entry(bridge string, read time.Time) entry {
	e := entry{Kind: arriving, ID: p.ID, Bridge: bridge, Call: p.Time, Return: read, Due: p.DeliverAt, Attempt: p.Attempt, Topic: p.Topic}
	own := p.Headers[:0:0]
	for _, h := range p.Headers {
		if strings.HasPrefix(h.Name, "delaybridge-") {
			continue
		}
		own = append(own, h)
		if h.Name == headerName && h.Value != nil {
			e.Name = *h.Value
		}
	}
	if e.Name == "" {
		e.Name = "?" + p.ID
	}
	e.Content = content(p.Topic, p.Key, own, p.Body)
	return e
}

// content is the hash of all that must arrive as it was sent.
func content(topic, key string, headers []header, body string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q ", topic, key)
	for _, one := range headers {
		if one.Value == nil {
			fmt.Fprintf(h, "%q nil ", one.Name)
			continue
		}
		fmt.Fprintf(h, "%q %q ", one.Name, *one.Value)
	}
	fmt.Fprintf(h, "%q", body)
	return hex.EncodeToString(h.Sum(nil))
}

const tailEvery = 20 * time.Millisecond

// tailer reads the lines of a file while it is written.
type tailer struct {
	reader *bufio.Reader
	part   []byte // of a line whose end is not written; a crash may leave it so
	writer string
	note   func(line []byte) error
}

// drain notes the lines that are there.
func (t *tailer) drain() error {
	for {
		line, err := t.reader.ReadBytes('\n')
		t.part = append(t.part, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what %s wrote: %w", t.writer, err)
		}
		if err := t.note(t.part); err != nil {
			return fmt.Errorf("%s wrote %q: %w", t.writer, t.part, err)
		}
		t.part = t.part[:0]
	}
}

// tail has each line of a file noted while a process writes it, until the run is
// over. The file is closed then.
func (r *run) tail(file *os.File, writer string, note func(line []byte) error) {
	t := &tailer{reader: bufio.NewReader(file), writer: writer, note: note}
	r.tails.Go(func() {
		defer file.Close()
		for over := false; ; {
			if err := t.drain(); err != nil || over {
				r.harmIf(err)
				return
			}
			select {
			case <-time.After(tailEvery):
			case <-r.over:
				over = true // once more, as there may be a last line
			}
		}
	})
}

// tailPrinted notes what the console sink of a bridge prints into a file.
func (r *run) tailPrinted(path, bridge string) {
	file, err := os.Open(path)
	if err != nil {
		r.Fatalf("read what bridge %s prints: %v", bridge, err)
	}
	r.tail(file, "bridge "+bridge, func(line []byte) error { return r.ledger.notePrinted(line, bridge) })
}

func (l *ledger) notePrinted(line []byte, bridge string) error {
	var p printed
	if err := json.Unmarshal(line, &p); err != nil {
		return err
	}
	l.note(p.entry(bridge, time.Now()))
	return nil
}
