package amqpsource

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

// contentFrame is a frame with properties: a content type if it is not empty,
// and a table.
func contentFrame(contentType, table string) []byte {
	flags := uint16(flagHeaders | 1<<12) // and a delivery mode
	var payload []byte
	payload = append(payload, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4)
	if contentType != "" {
		flags |= flagContentType
	}
	payload = binary.BigEndian.AppendUint16(payload, flags)
	if contentType != "" {
		payload = append(append(payload, byte(len(contentType))), contentType...)
	}
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(table))), table...)
	payload = append(payload, 2)
	frame := binary.BigEndian.AppendUint32([]byte{frameContentType, 0, 1}, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

func long(kind byte, inner string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(inner)))) + inner
}

func nest(kind byte, depth int) string {
	inner := ""
	for range depth {
		inner = long(kind, inner)
		if kind == 'F' {
			inner = "\x01k" + inner
		}
	}
	if kind == 'F' {
		return inner
	}
	return "\x01k" + inner
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name, table string
		readable    bool
	}{
		{"empty", "", true},
		{"all types", "\x01at\x01\x01bb\x01\x01cB\x01\x01ds12\x01eu12\x01fI1234\x01gi1234\x01hl12345678\x01if1234\x01jd12345678\x01kD\x021234\x01lT12345678\x01mV" +
			"\x01n" + long('S', "text") + "\x01o" + long('x', "\x00") + "\x00" + long('A', "V"+long('F', "\x01aV")), true},
		{"unknown type", "\x01aQ", false},
		{"unknown type inside", "\x01a" + long('A', "L12345678"), false},
		{"cut", "\x01al1234", false},
		{"name beyond the end", "\x05a", false},
		{"text beyond the end", "\x01aS\xff\xff\xff\xff", false},
		{"no value", "\x01a", false},
		{"deepest list", nest('A', maxDepth), true},
		{"deeper list", nest('A', maxDepth+1), false},
		{"deepest table", nest('F', maxDepth), true},
		{"deeper table", nest('F', maxDepth+1), false},
		{"longest list", "\x01k" + long('A', strings.Repeat("V", maxContainerItems)), true},
		{"longer list", "\x01k" + long('A', strings.Repeat("V", maxContainerItems+1)), false},
	}
	for _, tt := range tests {
		for _, contentType := range []string{"", "text/plain"} {
			frame := contentFrame(contentType, tt.table)
			want := frame
			if !tt.readable {
				want = contentFrame(contentType, "\x16"+headerUnreadable+"V")
			}
			if got := withReadableTable(bytes.Clone(frame)); !bytes.Equal(got, want) {
				t.Errorf("%s: %q, want %q", tt.name, got, want)
			}
		}
	}
}

// TestGuardHandsOn: whatever the pieces in which it comes and is read.
func TestGuardHandsOn(t *testing.T) {
	other := append([]byte{3, 0, 1, 0, 0, 0, 10}, "0123456789\xce"...)
	sent := bytes.Join([][]byte{other, contentFrame("a", "\x01aV"), other, contentFrame("", "\x01aQ"), {8, 0, 0, 0, 0, 0, 0, 0xCE}}, nil)
	want := bytes.Join([][]byte{other, contentFrame("a", "\x01aV"), other, contentFrame("", "\x16"+headerUnreadable+"V"), {8, 0, 0, 0, 0, 0, 0, 0xCE}}, nil)
	for size := 1; size < len(sent); size += 7 {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			for rest := sent; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				far.Write(rest[:min(size, len(rest))])
			}
		}()
		got, err := io.ReadAll(newGuard(near))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("in pieces of %d: %q, %v", size, got, err)
		}
	}
}

func FuzzGuard(f *testing.F) {
	f.Add(contentFrame("a", "\x01aV"))
	f.Add(contentFrame("", nest('A', 40)))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		near, far := net.Pipe()
		go func() { defer far.Close(); far.Write(sent) }()
		got, _ := io.ReadAll(newGuard(near))
		near.Close()
		if len(got) > len(sent)+len(headerUnreadable)*(1+len(sent)/20) {
			t.Errorf("%d bytes became %d", len(sent), len(got))
		}
	})
}
