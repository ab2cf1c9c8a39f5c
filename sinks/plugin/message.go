package plugin

import (
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// toProto shares the bytes of a batch, with one allocation for all its messages. The
// headers are those to be sent, so that a plugin's author need not know which ones
// to add.
func toProto(batch []*core.Message) []*sinkv1.Message {
	all, messages := make([]*sinkv1.Message, len(batch)), make([]sinkv1.Message, len(batch))
	for n, m := range batch {
		intoProto(&messages[n], m)
		all[n] = &messages[n]
	}
	return all
}

func intoProto(p *sinkv1.Message, m *core.Message) {
	p.Id, p.Topic, p.Key, p.Body, p.Options = m.ID, m.Topic, m.Key, m.Body, m.Options
	p.DeliverAtMs, p.Priority, p.Attempt = m.DeliverAt.UnixMilli(), int32(m.Priority), int32(m.Attempt)
	if !m.ExpiresAt.IsZero() {
		p.ExpiresAtMs = m.ExpiresAt.UnixMilli()
	}
	delivered := m.DeliveredHeaders()
	p.Headers = make([]*sinkv1.Header, len(delivered))
	headers := make([]sinkv1.Header, len(delivered))
	for n, h := range delivered {
		headers[n].Name, headers[n].Value = h.Name, h.Value
		p.Headers[n] = &headers[n]
	}
}

// batchOf is the reverse of toProto: a sink behind the boundary gets the
// messages that it would get before it. The sink's name stays with the host.
func batchOf(all []*sinkv1.Message) []*core.Message {
	batch, messages := make([]*core.Message, len(all)), make([]core.Message, len(all))
	for n, p := range all {
		outOfProto(&messages[n], p)
		batch[n] = &messages[n]
	}
	return batch
}

func outOfProto(m *core.Message, p *sinkv1.Message) {
	m.ID, m.Topic, m.Key, m.Body, m.Options = p.Id, p.Topic, p.Key, p.Body, p.Options
	m.DeliverAt, m.Priority, m.Attempt = time.UnixMilli(p.DeliverAtMs).UTC(), int(p.Priority), int(p.Attempt)
	if p.ExpiresAtMs != 0 {
		m.ExpiresAt = time.UnixMilli(p.ExpiresAtMs).UTC()
	}
	if own := len(p.Headers) - core.AddedHeaders; own > 0 {
		m.Headers = make([]core.Header, own)
		for n, h := range p.Headers[:own] {
			m.Headers[n] = core.Header{Name: h.Name, Value: h.Value}
		}
	}
}
