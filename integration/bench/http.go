package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	httplistener "github.com/delaybridge/delaybridge/interceptors/http"
)

// measureHTTP: messages a second through the HTTP listener, as single posts and as
// NDJSON batches. The client is part of the run and shares the processors; it
// sends ready-made bytes over kept connections.
func measureHTTP(ctx context.Context, b *bench) error {
	const connections, singles, batches, perBatch = 128, 200_000, 1000, 500
	raw, err := rawPark(ctx, b.redis.client, 500_000, time.Now().Add(time.Hour), false)
	if err != nil {
		return err
	}
	if err := b.redis.flush(ctx); err != nil {
		return err
	}
	br, err := b.openBridge(ctx)
	if err != nil {
		return err
	}
	addr, stop, err := openListener(ctx, br)
	if err != nil {
		return errors.Join(err, br.stop())
	}
	line := fmt.Sprintf(`{"topic":"t","delay":"1h","body":%q}`, strings.Repeat("x", bodySize))
	single := post("/v1/messages", "application/json", line)
	batch := post("/v1/messages/batch", "application/x-ndjson", strings.Repeat(line+"\n", perBatch))
	rate, err := postAll(addr, connections, singles, single, http.StatusCreated)
	if err == nil {
		b.table.rates(fmt.Sprintf("HTTP, single posts over %d connections", connections), rate, raw, "")
		rate, err = postAll(addr, 8, batches, batch, http.StatusOK)
		b.table.rates("HTTP, NDJSON batches of 500 over 8 connections", rate*perBatch, raw, "")
	}
	return errors.Join(err, stop(), br.stop())
}

// openListener serves br over HTTP on a free port.
func openListener(ctx context.Context, br *bridge) (addr string, stop func() error, err error) {
	listener, err := httplistener.New(httplistener.Config{Listen: "127.0.0.1:0"}, br.in)
	if err != nil {
		return "", nil, err
	}
	at, err := listener.Listen()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(ctx) }()
	return at.String(), func() error { cancel(); return <-ended }, nil
}

func post(path, contentType, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, contentType, len(body), body)
}

// postAll sends one request n times over some connections and returns requests
// a second.
func postAll(addr string, connections, n int, request []byte, want int) (perSecond float64, err error) {
	var next atomic.Int64
	began := time.Now()
	err = parallel(connections, func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for next.Add(1) <= int64(n) {
			if _, err := conn.Write(request); err != nil {
				return err
			}
			if err := readAnswer(answers, want); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(n) / time.Since(began).Seconds(), err
}

func readAnswer(r *bufio.Reader, want int) error {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err == nil && (answer.StatusCode != want || bytes.Contains(body, []byte("problems/"))) {
		return fmt.Errorf("status %d: %.200s", answer.StatusCode, body)
	}
	return err
}
