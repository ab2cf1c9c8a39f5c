package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/delaybridge/delaybridge/client"
)

// line is one line of a file of messages, or the error that ends it.
type line struct {
	number int
	text   []byte
	id     string
	err    error
}

// maxLines is how many lines are sent together. No more are read ahead.
const maxLines = 500

// sendFile sends the messages of a file, and prints or records what became of each.
func (a *app) sendFile(ctx context.Context, s *session, path, resultsPath string) error {
	in := io.NopCloser(a.stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return coded(exitUsage, fmt.Errorf("read the messages: %w", err))
		}
		in = file
	}
	defer in.Close()
	results, err := openResults(resultsPath)
	if err != nil {
		return err
	}
	defer results.close()
	s.config.Patience = s.config.Timeout // a long run should survive a restart of the bridge
	bridge, err := client.New(s.config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &fileSender{app: a, session: s, bridge: bridge, results: results, lines: make(chan line, maxLines)}
	f.showsProgress = isTerminal(a.stderr) && (results.file != nil || !isTerminal(a.stdout))
	go f.read(ctx, in)
	return f.send(ctx)
}

// fileSender is one run of send --file.
type fileSender struct {
	*app
	session       *session
	bridge        *client.Client
	results       *results
	lines         chan line
	showsProgress bool

	sent, skipped, failed int
	first                 error // of the failed lines
}

// read passes on the lines of r until ctx ends. It has its own goroutine, because
// reading from a terminal or a pipe can't be interrupted, and because what has arrived is
// to be sent before more arrives.
func (f *fileSender) read(ctx context.Context, r io.Reader) {
	defer close(f.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxSendBody)
	pass := func(l line) bool {
		select {
		case f.lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	number := 0
	for scanner.Scan() {
		if number++; len(bytes.TrimSpace(scanner.Bytes())) > 0 && !pass(line{number: number, text: bytes.Clone(scanner.Bytes())}) {
			return
		}
	}
	if err := scanner.Err(); err != nil {
		pass(line{err: fmt.Errorf("read line %d: %w", number+1, err)})
	}
}

// send sends until the file ends or nothing more can be sent.
func (f *fileSender) send(ctx context.Context) error {
	for {
		lines, err := f.next(ctx)
		if len(lines) > 0 {
			err = cmp.Or(f.sendLines(ctx, lines), err)
			f.progress()
		}
		switch {
		case err != nil:
			return f.stopped(err)
		case len(lines) == 0:
			return f.finished()
		}
	}
}

// next returns lines that have been read, without those that have a result already. It
// waits for one; there is none at the end only.
func (f *fileSender) next(ctx context.Context) (lines []line, err error) {
	for len(lines) < maxLines {
		l, ok := f.receive(ctx, len(lines) == 0)
		if !ok || l.err != nil {
			return lines, l.err
		}
		done, err := f.results.name(&l)
		switch {
		case err != nil:
			return lines, err
		case done:
			f.skipped++
		default:
			lines = append(lines, l)
		}
	}
	return lines, nil
}

func (f *fileSender) receive(ctx context.Context, wait bool) (l line, ok bool) {
	if !wait {
		select {
		case l, ok = <-f.lines:
		default:
		}
		return l, ok
	}
	select {
	case l, ok = <-f.lines:
		return l, ok
	case <-ctx.Done():
		return line{err: ctx.Err()}, true
	}
}

// sendLines returns an error if it makes no sense to continue. Lines that failed for
// that reason have no result.
func (f *fileSender) sendLines(ctx context.Context, lines []line) error {
	messages := make([]json.RawMessage, len(lines))
	for n, l := range lines {
		messages[n] = l.text
	}
	receipts, err := f.bridge.PublishJSON(ctx, messages)
	failed, ok := errors.AsType[client.BatchError](err)
	if !ok {
		failed = make(client.BatchError, len(lines))
	}
	var found []lineResult
	var fatal error
	for n, l := range lines {
		if failed[n] == nil {
			found = append(found, storedLine(l.number, receipts[n]))
			f.sent++
			continue
		}
		err := fmt.Errorf("line %d: %w", l.number, explain(failed[n], ""))
		if !ofMessage(failed[n]) {
			fatal = cmp.Or(fatal, err)
			continue
		}
		found = append(found, f.failedLine(l, explain(failed[n], "")))
		f.failed++
		f.first = cmp.Or(f.first, err)
	}
	return cmp.Or(f.write(found), fatal)
}

// write records the results, or prints them if there is no file for them.
func (f *fileSender) write(found []lineResult) error {
	if f.results.file != nil {
		return f.results.write(found)
	}
	if f.session.forPeople() {
		rows := make([][]string, len(found))
		for n, r := range found {
			rows[n] = []string{strconv.Itoa(r.Line), r.ID, cmp.Or(string(r.State), r.Code), cmp.Or(r.DeliverAt, r.Message)}
		}
		return f.session.table(rows)
	}
	for _, r := range found {
		if err := f.session.value(r); err != nil {
			return err
		}
	}
	return nil
}

func (f *fileSender) progress() {
	if f.showsProgress {
		fmt.Fprintf(f.stderr, "\r%s sent, %d failed, %d sent before ", counted(f.sent, "message"), f.failed, f.skipped)
	}
}

// stopped is the error of a run that did not reach the end.
func (f *fileSender) stopped(err error) error {
	f.endProgress()
	hint := "not all messages were sent"
	if f.results.file != nil {
		hint += "; run the same command again to continue"
	}
	return fmt.Errorf("%s: %w", hint, err)
}

func (f *fileSender) finished() error {
	f.endProgress()
	if f.failed == 0 {
		return nil
	}
	return coded(exitConflict, fmt.Errorf("%d of %s failed, the first: %w", f.failed, counted(f.sent+f.failed, "message"), f.first))
}

func (f *fileSender) endProgress() {
	if f.showsProgress {
		fmt.Fprintln(f.stderr)
	}
}
