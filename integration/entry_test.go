//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// entry is a message as the HTTP listener takes it.
type entry struct {
	ID        string            `json:"id"`
	Sink      string            `json:"sink"`
	Topic     string            `json:"topic"`
	Key       []byte            `json:"key_base64,omitempty"`
	Headers   []map[string]any  `json:"headers,omitempty"`
	Body      []byte            `json:"body_base64"`
	Delay     string            `json:"delay,omitempty"`
	DeliverAt string            `json:"deliver_at,omitempty"`
	Options   map[string]string `json:"options,omitempty"`
}

// headerEntries writes text as text and other bytes in base64.
func headerEntries(headers []core.Header) []map[string]any {
	var entries []map[string]any
	for _, h := range headers {
		one := map[string]any{"name": h.Name}
		switch text := string(h.Value); {
		case h.Value == nil:
			one["value"] = nil
		case isPrintable(text):
			one["value"] = text
		default:
			one["value_base64"] = h.Value
		}
		entries = append(entries, one)
	}
	return entries
}

func isPrintable(text string) bool {
	for _, r := range text {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}

// receipt is the listener's answer to one line of a batch.
type receipt struct {
	ID        string    `json:"id"`
	Status    int       `json:"status"`
	DeliverAt time.Time `json:"deliver_at"`
	Code      string    `json:"code"`
	Field     string    `json:"field"`
	Detail    string    `json:"detail"`
}

func (r receipt) accepted() bool { return r.Status == http.StatusCreated || r.Status == http.StatusOK }

// passing: the bridge may take the same entry later.
func (r receipt) passing() bool {
	return r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests
}

// insist is postBatch again and again, with the same ids, while there is no answer
// or one that says to send again.
func (i *instance) insist(entries []entry) ([]receipt, error) {
	for deadline := time.Now().Add(answersIn); ; time.Sleep(100 * time.Millisecond) {
		receipts, err := i.postBatch(entries)
		if err == nil && !slices.ContainsFunc(receipts, receipt.passing) || time.Now().After(deadline) {
			return receipts, err
		}
	}
}

// dueFrom is the earliest time at which an entry that is sent at sent can be due.
func (e entry) dueFrom(sent time.Time) (time.Time, error) {
	if e.DeliverAt != "" {
		return core.ParseTime(e.DeliverAt)
	}
	delay, err := time.ParseDuration(e.Delay)
	return sent.Add(delay).Truncate(time.Millisecond), err
}

// postBatch sends entries as one NDJSON batch and returns a receipt for each.
func (i *instance) postBatch(entries []entry) ([]receipt, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			return nil, err
		}
	}
	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Post(i.url+"/v1/messages/batch", "application/x-ndjson", &body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("batch: %s", answer.Status)
	}
	var receipts []receipt
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		var r receipt
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("batch: line %q: %w", lines.Bytes(), err)
		}
		receipts = append(receipts, r)
	}
	if len(receipts) != len(entries) {
		return nil, fmt.Errorf("batch: %d receipts for %d messages", len(receipts), len(entries))
	}
	return receipts, nil
}
