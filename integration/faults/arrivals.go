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

// tailer reads what one process printed, while it prints.
type tailer struct {
	file   *os.File
	reader *bufio.Reader
	part   []byte // of a line whose end is not written; a crash may leave it so
	bridge string
	ledger *ledger
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
			return fmt.Errorf("read what bridge %s printed: %w", t.bridge, err)
		}
		var p printed
		if err := json.Unmarshal(t.part, &p); err != nil {
			return fmt.Errorf("bridge %s printed %q: %w", t.bridge, t.part, err)
		}
		t.ledger.note(p.entry(t.bridge, time.Now()))
		t.part = t.part[:0]
	}
}

// tail notes what a process prints into a file, until the run is over.
func (r *run) tail(path, bridge string) {
	file, err := os.Open(path)
	if err != nil {
		r.Fatalf("read what bridge %s prints: %v", bridge, err)
	}
	t := &tailer{file: file, reader: bufio.NewReader(file), bridge: bridge, ledger: r.ledger}
	r.tails.Go(func() {
		defer file.Close()
		for over := false; ; {
			if err := t.drain(); err != nil {
				r.harm(err)
				return
			}
			if over {
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
