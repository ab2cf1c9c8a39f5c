package redisstore

import (
	"errors"
	"testing"

	"github.com/delaybridge/delaybridge/core"
)

// FuzzCursor: whatever a caller sends for a cursor is refused, or is one that
// an earlier page may have had: it is written again as the same position, and
// no position is before the beginning.
func FuzzCursor(f *testing.F) {
	f.Add("", uint32(0))
	f.Add(cursor{Query: 7, Due: 1_700_000_000_000, Sink: 1, Bucket: 15, Level: 9, Seq: 1 << 39}.encode(), uint32(7))
	f.Add(cursor{Query: 7, Due: -1}.encode(), uint32(7))
	f.Add("eyJxIjo3LCJkIjoxZTMwMH0", uint32(7)) // {"q":7,"d":1e300}
	f.Add("bnVsbA", uint32(0))                  // null
	f.Add("W10", uint32(0))                     // []
	f.Add("e30=\n", uint32(0))
	f.Fuzz(func(t *testing.T, text string, query uint32) {
		c, err := decodeCursor(text, query)
		switch {
		case err != nil:
			if !errors.Is(err, core.ErrBadCursor) || c != nil {
				t.Errorf("got %v, %v", c, err)
			}
			return
		case c == nil:
			if text != "" {
				t.Errorf("%q counts as no cursor", text)
			}
			return
		}
		again, err := decodeCursor(c.encode(), query)
		if err != nil || *again != *c || c.Query != query || c.Due < 0 || c.Seq < 0 {
			t.Errorf("%+v became %+v, %v", c, again, err)
		}
	})
}
