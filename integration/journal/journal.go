// Package journal keeps for a test what others write, such as a log.
package journal

import (
	"bytes"
	"regexp"
	"sync"
)

// Journal is what was written to it so far. The zero value is empty; safe for
// concurrent use.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the journal. It does not fail.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns all that was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

const tail = 3000

// Tail returns the end of what was written.
func (j *Journal) Tail() string {
	text := j.String()
	return text[max(0, len(text)-tail):]
}

// Find returns what the group of the pattern matched, each time.
func (j *Journal) Find(pattern *regexp.Regexp) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for _, match := range pattern.FindAllSubmatch(j.text.Bytes(), -1) {
		all = append(all, string(match[1]))
	}
	return all
}
