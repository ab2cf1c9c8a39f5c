package grpclistener

import (
	"encoding/binary"
	"math"
)

// What of HTTP/2 (RFC 9113) and of gRPC on it reports where a message begins and ends.
const (
	prefaceLen     = 24 // before the frames of a client
	frameHeadLen   = 9
	messageHeadLen = 5 // compressed or not, and the length

	frameData    = 0
	frameHeaders = 1
	frameReset   = 3

	flagEndStream = 1
	flagPadded    = 8
)

// frames reads one direction of a connection, in whatever pieces it comes.
type frames struct {
	skip   int // bytes that say nothing here
	head   [frameHeadLen]byte
	have   int // of head; all of it: within the payload of a DATA frame
	left   int // of that
	pad    int // behind that
	padded bool
}

func (f *frames) kind() byte     { return f.head[3] }
func (f *frames) ends() bool     { return f.head[4]&flagEndStream != 0 }
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1) }

// step reads a part of p: began reports that a frame's head is whole now, and data is a
// piece of a DATA frame.
func (f *frames) step(p []byte) (rest []byte, began bool, data []byte) {
	switch {
	case f.skip > 0:
		n := min(f.skip, len(p))
		f.skip -= n
		return p[n:], false, nil
	case f.have < frameHeadLen:
		n := copy(f.head[f.have:], p)
		f.have += n
		if began = f.have == frameHeadLen; began {
			f.begin()
		}
		return p[n:], began, nil
	case f.padded:
		f.padded = false
		f.pad = min(int(p[0]), f.left-1)
		f.left -= 1 + f.pad
		p = p[1:]
	}
	n := min(f.left, len(p))
	if f.left -= n; f.left == 0 {
		f.skip, f.have = f.pad, 0
	}
	return p[n:], false, p[:n]
}

func (f *frames) begin() {
	size := int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	if f.kind() != frameData || size == 0 {
		f.skip, f.have = size, 0
		return
	}
	f.left, f.pad, f.padded = size, 0, f.head[4]&flagPadded != 0
}

// messages reads one direction of a stream.
type messages struct {
	head [messageHeadLen]byte
	have int // of head
	left int // of the message behind it
}

func (g *messages) compressed() bool { return g.head[0]&1 != 0 }
func (g *messages) length() int      { return int(min(binary.BigEndian.Uint32(g.head[1:]), math.MaxInt32)) }

// step reads a part of p, up to the end of a message. n is how much of it belongs to a
// message and not to its head.
func (g *messages) step(p []byte) (rest []byte, began, ended bool, n int) {
	if g.have < messageHeadLen {
		k := copy(g.head[g.have:], p)
		g.have, p = g.have+k, p[k:]
		if g.have < messageHeadLen {
			return p, false, false, 0
		}
		g.left, began = g.length(), true
	}
	n = min(g.left, len(p))
	if g.left -= n; g.left == 0 {
		g.have, ended = 0, true
	}
	return p[n:], began, ended, n
}
