package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// offsetLen is room for a ':' and the largest offset.
const offsetLen = 20

// SourceID names a place that records come from, a partition or a queue, for
// the IDs of its messages: the parts with ':' between them, which must not have
// ':' themselves. Add ':' and the record's offset in decimal. Where that could
// be too long, or a part has characters that an ID can't have, a hash stands
// for the parts after the first.
func SourceID(kind string, parts ...string) string {
	id := kind + ":" + strings.Join(parts, ":")
	if len(id) <= core.MaxIDLen-offsetLen && core.CheckID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return kind + ":" + hex.EncodeToString(sum[:16])
}
