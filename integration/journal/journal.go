// Package journal keeps for a test what others write, such as a log.
package journal

import (
	"bytes"
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
