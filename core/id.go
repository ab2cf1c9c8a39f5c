package core

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"hash/fnv"
	"sync/atomic"
	"time"
)

// A generated ID is 23 characters of 0-9a-v: two for the bucket, then 104 bits:
// 48 of epoch milliseconds, 40 that a process draws at its start, 16 that it
// counts. So a process never makes an ID twice (that would take 65,536 in a
// millisecond), two processes only if they drew the same of 2^40 numbers, and
// stores need not look whether it is taken. A call by ID is one look-up, and
// Redis stores strings of up to 28 bytes in the memory of one of 13, so the
// length is free, with five bytes to spare for the store.
const (
	generatedIDLen = 23
	idTimeBytes    = 6
	idDrawnBytes   = 5
	idCountBytes   = 2
	bucketChars    = 2
)

// MaxBuckets is the number of buckets that a generated ID can encode.
const MaxBuckets = 1024

const idAlphabet = "0123456789abcdefghijklmnopqrstuv"

var idEncoding = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

// IDs generates IDs. Create one per process with NewIDs. It is safe for concurrent use.
type IDs struct {
	drawn [idDrawnBytes]byte
	count atomic.Uint32
}

// NewIDs returns a generator whose IDs share a random part that is unique to this
// process.
func NewIDs() *IDs {
	ids := new(IDs)
	rand.Read(ids.drawn[:]) // never fails, see crypto/rand
	return ids
}

// New returns a new ID that encodes the number of its bucket (0 to MaxBuckets-1).
func (i *IDs) New(bucket int, now time.Time) string {
	var raw [8 + idDrawnBytes + idCountBytes]byte
	binary.BigEndian.PutUint64(raw[:], uint64(now.UnixMilli()))
	copy(raw[8:], i.drawn[:])
	binary.BigEndian.PutUint16(raw[8+idDrawnBytes:], uint16(i.count.Add(1)))
	id := make([]byte, bucketChars, generatedIDLen)
	id[0], id[1] = idAlphabet[bucket>>5&31], idAlphabet[bucket&31]
	return string(idEncoding.AppendEncode(id, raw[8-idTimeBytes:]))
}

// Place returns which of n buckets m belongs to, and sets the ID of a message whose
// Generated is set. Such a message belongs to the bucket anywhere if it has no key.
func (i *IDs) Place(m *Message, n, anywhere int) int {
	if !m.Generated {
		return BucketOf(m.Key, m.ID, n)
	}
	if m.Key != nil {
		anywhere = BucketOf(m.Key, "", n)
	}
	m.ID = i.New(anywhere, time.Now())
	return anywhere
}

// BucketOfID returns the bucket that a generated ID encodes, and reports whether id has
// the form of a generated ID. A producer's ID may have that form by chance; its message
// may then be in another bucket.
func BucketOfID(id string) (bucket int, ok bool) {
	if len(id) != generatedIDLen {
		return 0, false
	}
	for i := range len(id) {
		if digit(id[i]) < 0 {
			return 0, false
		}
	}
	return digit(id[0])<<5 | digit(id[1]), true
}

func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'v':
		return int(c-'a') + 10
	}
	return -1
}

// BucketOf returns which of n buckets a message belongs to, by its key or, if key is
// nil, by its ID. A generated ID encodes its bucket, so that a repeat with the same ID
// finds the message. Otherwise the bucket is FNV-1a modulo n. This is part of the
// stored format: after a change, parked messages would not be found.
func BucketOf(key []byte, id string, n int) int {
	if bucket, ok := BucketOfID(id); key == nil && ok && bucket < n {
		return bucket
	}
	h := fnv.New32a()
	if key != nil {
		h.Write(key)
	} else {
		h.Write([]byte(id))
	}
	return int(h.Sum32() % uint32(n))
}
