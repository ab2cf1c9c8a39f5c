package rocketmq

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestClientLogGoesToSlog(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	log := clientLog{}
	log.Info("noise", nil)
	log.Warning("noise", nil)
	log.Error("trouble", map[string]any{"z": errors.New("one\ntwo"), "a": 1})
	log.Fatal("the end", nil) // is not
	got := out.String()
	if strings.Contains(got, "noise") || strings.Count(got, "\n") != 2 || !strings.Contains(got, `a=1 z="one\ntwo"`) {
		t.Errorf("logged:\n%s", got)
	}
}
