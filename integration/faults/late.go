//go:build unix

package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lateness holds up single calls of the store's scripts on their way to Redis, and
// all that comes behind them on the same connection, as a network does. A client
// that gives its connection up takes nothing back: what it has sent still comes to
// Redis, when its time has come.
type lateness struct {
	names map[string]string // by the first line of its source: a script's name

	mu      sync.Mutex
	dice    *rand.Rand
	scripts map[string]string  // by its SHA: a script's name
	shares  map[string]float64 // of the calls of a script that are late
	held    int                // on their way now
	after   map[string]int     // how many of a script reached Redis when they were given up already
}

const (
	leastLate = 100 * time.Millisecond
	mostLate  = 10 * time.Second
	givenUp   = 5 * time.Second // longer than any call of the store waits
)

// beLate has the proxy be able to hold calls up. It must be told before there is a
// connection, as it has to see the scripts being loaded.
func (p *proxy) beLate() *lateness {
	l := &lateness{names: map[string]string{}, dice: p.dice, scripts: map[string]string{}, shares: map[string]float64{}, after: map[string]int{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = l
	return l
}

// learn reads how the scripts of a directory begin.
func (l *lateness) learn(dir string, names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".lua"))
		if err != nil {
			return fmt.Errorf("read a script: %w", err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		l.names[first] = name
	}
	return nil
}

// hold sets the share of the calls of each script that are late from now on;
// those that are not named are not.
func (l *lateness) hold(shares map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shares = shares
}

// due is when a command is to be passed on, zero if it is not held up, and which
// script it runs.
func (l *lateness) due(words []string) (name string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch strings.ToUpper(words[0]) {
	case "SCRIPT":
		l.loaded(words[len(words)-1])
		return "", at
	case "EVALSHA":
		name = l.scripts[words[1]]
	}
	if share := l.shares[name]; share == 0 || l.dice.Float64() >= share {
		return name, at
	}
	l.held++
	least := leastLate
	if l.dice.IntN(2) == 0 {
		least = givenUp
	}
	return name, time.Now().Add(least + time.Duration(l.dice.Int64N(int64(mostLate-least))))
}

// loaded keeps the name of a script that is loaded.
func (l *lateness) loaded(source string) {
	sum := sha1.Sum([]byte(source))
	for line := range strings.Lines(source) {
		if name := l.names[strings.TrimSuffix(line, "\n")]; name != "" {
			l.scripts[hex.EncodeToString(sum[:])] = name
		}
	}
}

// arrived counts a call that was held up and has come through.
func (l *lateness) arrived(one lateRequest, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	if gone {
		l.after[one.script]++
	}
}

// late counts by script the calls that were given up when they reached Redis.
func (l *lateness) late() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.after)
}

// underWay counts the calls that are held up now.
func (l *lateness) underWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// lateRequest is a command of a client on its way to Redis.
type lateRequest struct {
	bytes  []byte
	script string
	at     time.Time // when it is passed on; zero: at once
}

// joinLate passes on in both directions. The client's end is not the end: what it
// has sent before comes through first.
func (p *proxy) joinLate(client, server net.Conn, late *lateness) {
	requests, over, gone := make(chan lateRequest, mostUnderWay), make(chan struct{}), make(chan struct{})
	p.group.Go(func() {
		defer close(requests)
		defer close(gone)
		for from := bufio.NewReader(client); ; {
			bytes, words, err := readCommand(from)
			if err != nil {
				return
			}
			one := lateRequest{bytes: bytes}
			one.script, one.at = late.due(words)
			select {
			case requests <- one:
			case <-over:
				return
			}
		}
	})
	p.group.Go(func() {
		defer close(over)
		p.passLate(client, server, late, requests, gone)
	})
	p.group.Go(func() {
		_, _ = io.Copy(client, server)
		_, _ = io.Copy(io.Discard, server) // nobody listens any more
		p.drop(client, server)
	})
}

// passLate passes requests on, each in its time, and lets Redis do what it was sent.
func (p *proxy) passLate(client, server net.Conn, late *lateness, requests <-chan lateRequest, gone <-chan struct{}) {
	broken := false
	for one := range requests {
		if !one.at.IsZero() {
			time.Sleep(time.Until(one.at))
			late.arrived(one, isClosed(gone))
		}
		if _, err := server.Write(one.bytes); err != nil && !broken {
			broken = true
			p.drop(client, server) // or requests would not end
		}
	}
	if tcp, ok := server.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // Redis answers what it has read, and closes
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// readCommand reads one command as clients send them, an array of strings, and
// returns it as it came, too.
func readCommand(from *bufio.Reader) (bytes []byte, words []string, err error) {
	line, count, err := readCount(from)
	bytes = append(bytes, line...)
	for range count {
		var size int
		if line, size, err = readCount(from); err != nil {
			return nil, nil, err
		}
		text := make([]byte, size+2)
		if _, err = io.ReadFull(from, text); err != nil {
			return nil, nil, err
		}
		bytes = append(append(bytes, line...), text...)
		words = append(words, string(text[:size]))
	}
	if err == nil && len(words) == 0 {
		err = fmt.Errorf("a command without words: %q", line)
	}
	return bytes, words, err
}

// readCount reads a line such as *3 or $5.
func readCount(from *bufio.Reader) (line []byte, n int, err error) {
	if line, err = from.ReadBytes('\n'); err != nil {
		return nil, 0, err
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(line[1:])))
	return line, n, err
}
