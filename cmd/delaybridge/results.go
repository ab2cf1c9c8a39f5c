package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/delaybridge/delaybridge/client"
)

// lineResult is what became of one line of send --file. Code is empty if the message is
// stored.
type lineResult struct {
	Line       int          `json:"line"`
	ID         string       `json:"id,omitempty"`
	Sink       string       `json:"sink,omitempty"`
	State      client.State `json:"state,omitempty"`
	DeliverAt  string       `json:"deliver_at,omitempty"`
	Durability string       `json:"durability,omitempty"`
	Duplicate  bool         `json:"duplicate,omitempty"`
	Code       string       `json:"code,omitempty"`
	Message    string       `json:"message,omitempty"`
}

func storedLine(number int, r client.Receipt) lineResult {
	return lineResult{Line: number, ID: r.ID, Sink: r.Sink, State: r.State, DeliverAt: timeText(r.DeliverAt), Durability: r.Durability, Duplicate: r.Duplicate}
}

func (a *app) failedLine(l line, err error) lineResult {
	r := a.reportOf(err)
	return lineResult{Line: l.number, ID: l.id, Code: r.Code, Message: r.Message}
}

// results are those of a run of send --file and of the runs that it continues.
type results struct {
	file *os.File // nil: they are not kept
	run  string   // generated ids are made of it, the same in each run
	done map[int]string
}

// openResults reads and continues the file at path, or begins it. An empty path is no
// file.
func openResults(path string) (*results, error) {
	r := &results{run: rand.Text(), done: make(map[int]string)}
	if path == "" {
		return r, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, coded(exitUsage, fmt.Errorf("open the results: %w", err))
	}
	r.file = file
	if err := r.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read the results in %s: %w", path, err), file.Close())
	}
	return r, nil
}

// resultsHead is the first line of the file.
type resultsHead struct {
	Run string `json:"run"`
}

// load reads what is there. A last line that was cut off is removed: its message may be
// stored, and is sent again with the same id.
func (r *results) load() error {
	lines, size := bufio.NewReader(r.file), int64(0)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r.begin(size, len(text))
		}
		if err == nil {
			err = r.loadLine(text, size == 0)
		}
		if err != nil {
			return err
		}
		size += int64(len(text))
	}
}

// begin makes the file ready for more after the lines of this size, which the start of
// another may follow.
func (r *results) begin(size int64, rest int) error {
	if size > 0 {
		_, err := r.file.Seek(size, io.SeekStart)
		return errors.Join(err, r.file.Truncate(size))
	}
	if rest > 0 {
		return errNoResults
	}
	head, _ := json.Marshal(resultsHead{r.run}) // a struct of text
	return r.append(append(head, '\n'))
}

var errNoResults = usageError("this is not a file that --results has made")

func (r *results) loadLine(text []byte, first bool) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var head resultsHead
	var result lineResult
	var err error
	if first {
		err = decoder.Decode(&head)
		r.run = head.Run
	} else {
		err = decoder.Decode(&result)
	}
	if err != nil || first && head.Run == "" {
		return errNoResults
	}
	if !first && result.Code == "" {
		r.done[result.Line] = result.ID
	}
	return nil
}

// name gives a line its id, and reports whether it has been stored before. A line that is
// no message stays as it is, for the client to refuse.
func (r *results) name(l *line) (done bool, err error) {
	var message struct{ ID string }
	brace := bytes.IndexByte(l.text, '{')
	if json.Unmarshal(l.text, &message) != nil || brace < 0 {
		return false, nil
	}
	if l.id = message.ID; l.id == "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", r.run, l.number, l.text))
		l.id = base32.StdEncoding.EncodeToString(sum[:])[:26]
		l.text = fmt.Appendf(nil, `{"id":%q,%s`, l.id, l.text[brace+1:])
	}
	id, done := r.done[l.number]
	if done && id != l.id {
		return false, usageError(fmt.Sprintf("line %d has changed since its result was written: use another file for --results", l.number))
	}
	return done, nil
}

// write returns when the results are on disk.
func (r *results) write(found []lineResult) error {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for _, one := range found {
		if err := lines.Encode(one); err != nil {
			return fmt.Errorf("encode the results: %w", err)
		}
	}
	return r.append(out.Bytes())
}

func (r *results) append(text []byte) error {
	if _, err := r.file.Write(text); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

func (r *results) close() {
	if r.file != nil {
		r.file.Close() // what was written is on disk
	}
}
