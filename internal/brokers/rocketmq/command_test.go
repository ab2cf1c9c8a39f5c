package rocketmq

import (
	"strings"
	"testing"
)

// Frames that are broken, or larger than a reply may be, are errors and cost no memory.
func TestReadCommandRefuses(t *testing.T) {
	tests := map[string]string{
		"nothing":           "",
		"cut in the length": "\x00\x00",
		"too short":         "\x00\x00\x00\x03\x00\x00\x00\x00",
		"too large":         "\x7f\xff\xff\xff\x00\x00\x00\x02{}",
		"header too long":   "\x00\x00\x00\x06\x00\x00\x00\x03{}x",
		"another encoding":  "\x00\x00\x00\x06\x01\x00\x00\x02{}",
		"no JSON":           "\x00\x00\x00\x06\x00\x00\x00\x02{x",
		"cut in the body":   "\x00\x00\x00\x08\x00\x00\x00\x02{}x",
	}
	for name, frame := range tests {
		if c, err := ReadCommand(strings.NewReader(frame)); err == nil {
			t.Errorf("%s: read %+v", name, c)
		}
	}
}
