package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisProcess is a private redis-server with an append-only file that is
// fsynced every second.
type redisProcess struct {
	cmd    *exec.Cmd
	dir    string
	addr   string
	client *redis.Client
}

func startRedis(ctx context.Context) (*redisProcess, error) {
	dir, err := os.MkdirTemp("", "delaybridge-bench")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes",
		"--auto-aof-rewrite-percentage", "0", "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (Debian: apt-get install redis-server): %w", err)
	}
	r := &redisProcess{cmd: cmd, dir: dir, addr: addr, client: redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})}
	for deadline := time.Now().Add(10 * time.Second); r.client.Ping(ctx).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			r.stop()
			return nil, fmt.Errorf("redis-server at %s did not answer", addr)
		}
	}
	return r, nil
}

// freeAddr is a port of the loopback interface that nobody listens on.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (r *redisProcess) stop() {
	r.client.Close()
	r.cmd.Process.Kill()
	r.cmd.Wait()
	os.RemoveAll(r.dir)
}

// flush empties the server between two figures.
func (r *redisProcess) flush(ctx context.Context) error { return r.client.FlushAll(ctx).Err() }

// info is one number of INFO.
func (r *redisProcess) info(ctx context.Context, section, name string) (int64, error) {
	text, err := r.client.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	value, err := infoField(text, name)
	return int64(value), err
}

func infoField(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}

// cpuTime is the processor time that a process has used.
func cpuTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("read /proc/%d/stat", pid)
	}
	return time.Duration(user+system) * time.Second / 100, nil // clock ticks of 10 ms
}
