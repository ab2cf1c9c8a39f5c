//go:build unix

package servers

import (
	"encoding/binary"
	"fmt"
	"io"
)

const maxFrame = 16 << 20

// readFrame reads what a four-byte length precedes.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

type wireWriter struct{ b []byte }

func (w *wireWriter) int8(v int8)   { w.b = append(w.b, byte(v)) }
func (w *wireWriter) int16(v int16) { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *wireWriter) int32(v int32) { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *wireWriter) int64(v int64) { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *wireWriter) string(s string) {
	w.int16(int16(len(s)))
	w.b = append(w.b, s...)
}

// wireReader reads zeros once it has run out.
type wireReader struct {
	rest []byte
	err  error
}

func (r *wireReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.err = io.ErrUnexpectedEOF
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *wireReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// string is empty for null.
func (r *wireReader) string() string {
	n := r.int16()
	if n < 0 {
		return ""
	}
	return string(r.take(int(n)))
}
