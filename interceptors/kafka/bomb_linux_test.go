package kafkasource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/segmentio/kafka-go/compress"

	"github.com/delaybridge/delaybridge/core"
)

// limited is set in the process that TestBombsUnderLimit starts.
const limited = "DELAYBRIDGE_TEST_LIMITED"

// TestBombsUnderLimit: what declares or becomes more than a batch may have is refused
// by a process that the system gives 448 MiB more than it has at the start, with
// batches of up to 64 MiB. (The race detector takes four times what it watches.)
func TestBombsUnderLimit(t *testing.T) {
	if os.Getenv(limited) != "" {
		refuseBombs(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBombsUnderLimit$", "-test.v")
	cmd.Env = append(os.Environ(), limited+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestBombsUnderLimit") {
		t.Fatalf("%v: %s", err, core.Shorten(string(out), 4000))
	}
}

func refuseBombs(t *testing.T) {
	const most = 64 << 20
	bombs := bombs(t, most)
	u := unpackerOf(t, most)
	limit := uint64(448 << 20)
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		limit *= 5
	}
	limitMemory(t, limit)
	for name, bomb := range bombs {
		b := batch{attributes: int16(bomb.codec), records: bomb.packed}
		unpacked, err := u.unpack(&b, nil)
		if invalid, ok := errors.AsType[*core.InvalidError](err); !ok || invalid.TooLarge != bomb.tooLarge {
			t.Errorf("%s: %v, %d bytes", name, err, len(unpacked))
		}
	}
	good := batch{attributes: int16(compress.Snappy), records: s2.EncodeSnappy(nil, []byte("good"))}
	if got, err := u.unpack(&good, nil); err != nil || string(got) != "good" {
		t.Errorf("after that: %q, %v", got, err)
	}
}

type bomb struct {
	codec    compress.Compression
	packed   []byte
	tooLarge bool // or else damaged
}

func bombs(t testing.TB, most int) map[string]bomb {
	zeros := make([]byte, 1<<20)
	var gzipped, lz4ed bytes.Buffer
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gzipped), lz4.NewWriter(&lz4ed)} {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const times = 1 << 10 // both may follow each other
	declared := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), 0, 0, 0) }
	java := func(blocks ...[]byte) []byte {
		b := append([]byte(snappyHead), 0, 0, 0, 1, 0, 0, 0, 1)
		for _, block := range blocks {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(block))), block...)
		}
		return b
	}
	repeats := s2.Encode(nil, make([]byte, most)) // codes of S2 that snappy does not have
	var many [][]byte
	for range 2 * most / len(zeros) {
		many = append(many, s2.EncodeSnappy(nil, zeros))
	}
	frame := func(head byte, rest ...byte) []byte { return append([]byte{0x28, 0xb5, 0x2f, 0xfd, head}, rest...) }
	const single8, window = 0xe0, 0x00 // a size of eight bytes; a window and no size
	runs := frame(window, 0x58)        // 2 MiB
	for range 16 << 10 {
		runs = append(runs, 0x02, 0x00, 0x10, 'x') // a run of 128 KiB
	}
	return map[string]bomb{
		"snappy that declares 4 GiB":           {compress.Snappy, declared(1<<32 - 1), true},
		"snappy that declares what is allowed": {compress.Snappy, declared(uint64(most)), false},
		"snappy of Java that declares 4 GiB":   {compress.Snappy, java(declared(1<<32 - 1)), true},
		"snappy of Java with a block of 2 GiB": {compress.Snappy, append(java(), 0x7f, 0xff, 0xff, 0xff, 0), false},
		"snappy of Java, block by block":       {compress.Snappy, java(many...), true},
		"codes of S2":                          {compress.Snappy, repeats, false},
		"zstd that declares 4 GiB":             {compress.Zstd, frame(single8, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0), true},
		"zstd with a window of 2 TiB":          {compress.Zstd, frame(window, 0xf8, 1, 0, 0), true},
		"zstd, run by run":                     {compress.Zstd, runs, true},
		"gzip":                                 {compress.Gzip, bytes.Repeat(gzipped.Bytes(), times), true},
		"lz4":                                  {compress.Lz4, bytes.Repeat(lz4ed.Bytes(), times), true},
	}
}

// limitMemory lets the process have so many bytes of writable memory more than it has
// now. It is not RLIMIT_AS, as the C library reserves addresses for every thread.
func limitMemory(t testing.TB, more uint64) {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	// size resident shared text lib data: proc_pid_statm(5)
	var pages, none uint64
	if _, err := fmt.Sscan(string(statm), &none, &none, &none, &none, &none, &pages); err != nil {
		t.Fatal(err)
	}
	size := pages*uint64(os.Getpagesize()) + more
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		t.Fatal(err)
	}
}
