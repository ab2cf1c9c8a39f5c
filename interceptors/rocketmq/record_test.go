package rocketmqsource

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/source"
)

// encode makes what a broker answers of one message.
func encode(magic, flags uint32, body, topic, properties string) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), magic)
	b = append(b, make([]byte, 12)...)
	b = binary.BigEndian.AppendUint64(b, 7)
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint32(b, flags)
	b = binary.BigEndian.AppendUint64(b, 1000)
	b = append(b, make([]byte, hostLength(flags&flagBornV6))...)
	b = binary.BigEndian.AppendUint64(b, 2000)
	b = append(b, make([]byte, hostLength(flags&flagStoredV6)+12)...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, body...)
	if magic == magicV1 {
		b = append(b, byte(len(topic)))
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(topic)))
	}
	b = append(b, topic...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(properties)))
	b = append(b, properties...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func TestNextRecord(t *testing.T) {
	long := strings.Repeat("t", 200)
	for _, flags := range []uint32{0, flagBornV6, flagStoredV6, flagBornV6 | flagStoredV6} {
		for _, magic := range []uint32{magicV1, magicV2} {
			r, rest, err := nextRecord(append(encode(magic, flags, "body", long, "a\x01b\x02"), "rest"...))
			if err != nil || r.offset != 7 || r.flags != flags || r.born != 1000 || r.stored != 2000 || string(r.body) != "body" ||
				string(r.properties) != "a\x01b\x02" || string(rest) != "rest" {
				t.Errorf("flags %x, magic %x: %+v, rest %q, %v", flags, magic, r, rest, err)
			}
		}
	}
	whole := encode(magicV2, 0, "body", "topic", "a\x01b\x02")
	for n := range whole {
		if _, _, err := nextRecord(whole[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("of %d bytes: %v", n, err)
		}
	}
}

func FuzzNextRecord(f *testing.F) {
	f.Add(encode(magicV1, 0, "body", "topic", "a\x01b\x02"))
	f.Add(encode(magicV2, flagBornV6|flagCompressed, "body", "topic", "a\x01\x02\x02b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			r, after, err := nextRecord(rest)
			if err != nil {
				return
			}
			if len(after) >= len(rest) {
				t.Fatal("no progress")
			}
			sorted, _ := sortProperties(r.properties, nil, make(source.Names))
			for _, h := range sorted.headers {
				if h.Name == "" || len(h.Value) == 0 || bytes.ContainsAny(h.Value, "\x02") {
					t.Fatalf("header %q", h)
				}
			}
			if body, err := r.content(1 << 16); err == nil && r.flags&flagCompressed != 0 && len(body) > 1<<16+1 {
				t.Fatalf("%d bytes", len(body))
			}
			rest = after
		}
	})
}

func TestContent(t *testing.T) {
	text := strings.Repeat("delaybridge ", 1000)
	pack := func(made func(io.Writer) io.WriteCloser) string {
		var b bytes.Buffer
		w := made(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	zlibbed := pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	zstded := pack(func(w io.Writer) io.WriteCloser {
		encoder, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return encoder
	})
	lz4ed := pack(func(w io.Writer) io.WriteCloser { return lz4.NewWriter(w) })
	tests := []struct {
		name  string
		flags uint32
		body  string
		most  int
		want  string // "" is a refusal
	}{
		{"plain", 0, zlibbed, 10, zlibbed},
		{"zlib of 4.x", flagCompressed, zlibbed, 1 << 20, text},
		{"zlib", flagCompressed | compressionZlib, zlibbed, 1 << 20, text},
		{"lz4", flagCompressed | compressionLZ4, lz4ed, 1 << 20, text},
		{"zstd", flagCompressed | compressionZstd, zstded, 1 << 20, text},
		{"bound", flagCompressed, zlibbed, 10, text[:11]},
		{"bound of lz4", flagCompressed | compressionLZ4, lz4ed, 10, text[:11]},
		{"bound of zstd", flagCompressed | compressionZstd, zstded, 10, text[:11]},
		{"cut off", flagCompressed, zlibbed[:20], 1 << 20, ""},
		{"garbage", flagCompressed, text, 1 << 20, ""},
		{"other kind", flagCompressed | compressionZstd, zlibbed, 1 << 20, ""},
		{"unknown kind", flagCompressed | 7<<8, zlibbed, 1 << 20, ""},
		{"inner batch", flagInner, "x", 1 << 20, ""},
	}
	for _, test := range tests {
		r := record{flags: test.flags, body: []byte(test.body)}
		got, err := r.content(test.most)
		if _, refused := errors.AsType[*core.InvalidError](err); string(got) != test.want || refused != (test.want == "") {
			t.Errorf("%s: %d bytes, %v", test.name, len(got), err)
		}
	}
}

func TestSourceID(t *testing.T) {
	for _, topic := range []string{"t", strings.Repeat("t", 127), "%DLQ%g"} {
		id := sourceID(strings.Repeat("n", 64), place{topic: topic, broker: strings.Repeat("b", 64), number: 65535}) + "9223372036854775807:zzzzzzzzz"
		if err := core.CheckID(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	a, b := sourceID("n", place{topic: strings.Repeat("t", 120), broker: "a"}), sourceID("n", place{topic: strings.Repeat("t", 120), broker: "b"})
	if a == b {
		t.Errorf("two brokers share %s", a)
	}
}
