package source

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// positionLen is room for ':', the largest offset, and what tells records apart
// that have had the same one after another.
const positionLen = 40

// PlaceID names a place that records come from, a partition or a queue, for
// the IDs of its messages: the parts with ':' between them, which must not have
// ':' themselves. Add ':', the record's offset in decimal, and what else of the
// record's tells it from another that had the same offset in a log that no longer exists,
// in 40 bytes. Where that could
// be too long, or a part has characters that an ID can't have, a hash stands
// for the parts after the first.
func PlaceID(kind string, parts ...string) string {
	id := kind + ":" + strings.Join(parts, ":")
	if len(id) <= core.MaxIDLen-positionLen && core.CheckID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return kind + ":" + hex.EncodeToString(sum[:16])
}
