package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/delaybridge/delaybridge/core/redisstore"
	"github.com/delaybridge/delaybridge/integration/servers"
)

// TestStoreFormat shows and pins the format that one instance writes.
func TestStoreFormat(t *testing.T) {
	t.Parallel()
	redis := servers.Redis(t, servers.RedisOptions{})
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf("version: 1\nstore: {redis: {url: %q}}\nhttp: {listen: \"127.0.0.1:0\"}\nsinks: {out: {type: console}}\n", redis.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	format := func(args ...string) (string, error) {
		out, err := command(t, append([]string{"store", "format", "--config", file}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := format(); err == nil || !strings.Contains(out, "nothing is stored") {
		t.Errorf("before the first start: %v, %s", err, out)
	}
	store, err := redisstore.Open(t.Context(), redisstore.Config{Addrs: []string{redis.Addr()}, Instance: "web-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var shown storedFormats
	out, err := format("--pin", "1", "-o", "json")
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil || shown.Pin != 1 || shown.Writes != 1 ||
		len(shown.Instances) != 1 || shown.Instances[0] != (instanceOfFormat{"web-1", 1, 1, 1}) {
		t.Errorf("pinned: %v, %s", err, out)
	}
	out, err = format("--unpin")
	if err != nil || !strings.Contains(out, "pin            none") || !strings.Contains(out, "web-1     1-1    1") {
		t.Errorf("unpinned: %v, %s", err, out)
	}
}
