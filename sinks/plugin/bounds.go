package plugin

import (
	"cmp"
	"math"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// maxDeliver is how large a request with several messages may get: most servers
// take no more than 4 MiB unless told otherwise.
const maxDeliver = 3 << 20

// bounds are what one Deliver may hold.
type bounds struct {
	messages int
	body     int64 // bytes of the bodies
	size     int   // bytes of the request
}

// boundsOf are those of the plugin, where it has any, within ours.
func boundsOf(about *sinkv1.DescribeResponse) bounds {
	return bounds{
		messages: cmp.Or(max(int(about.GetMaxBatch()), 0), core.MaxTake),
		body:     cmp.Or(max(about.GetMaxBatchBytes(), 0), math.MaxInt64),
		size:     maxDeliver,
	}
}

// checkBounds are what one Check may hold: what the plugin says of batches is for
// Deliver, where it may have to keep them.
func checkBounds() bounds {
	return bounds{messages: math.MaxInt, body: math.MaxInt64, size: maxDeliver}
}

// fit is how many messages at the head of batch fit into one request; at least
// one, as a message that is too large by itself must be told to be so.
func (b bounds) fit(batch []*core.Message) int {
	body, size := int64(0), 0
	for n, m := range batch {
		body += int64(len(m.Body))
		size += sizeOf(m)
		if n > 0 && (n == b.messages || body > b.body || size > b.size) {
			return n
		}
	}
	return len(batch)
}

const (
	// fixedSize is more than the tags, the lengths and the numbers of a message
	// take, with the headers that we add.
	fixedSize = 256
	// fieldSize is the same for a header or an option.
	fieldSize = 24
)

// sizeOf is a quick upper bound of the size that m has in a request.
func sizeOf(m *core.Message) int {
	size := fixedSize + 2*len(m.ID) + len(m.Topic) + len(m.Key) + len(m.Body)
	for _, h := range m.Headers {
		size += fieldSize + len(h.Name) + len(h.Value)
	}
	for name, value := range m.Options {
		size += fieldSize + len(name) + len(value)
	}
	return size
}
