package plugin

import (
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/sinks/plugin/sinkv1"
)

// toProto shares the bytes of m. The headers are those to be sent, so that a
// plugin's author need not know which ones to add.
func toProto(m *core.Message) *sinkv1.Message {
	delivered := m.DeliveredHeaders()
	p := &sinkv1.Message{
		Id: m.ID, Topic: m.Topic, Key: m.Key, Body: m.Body, Options: m.Options,
		DeliverAtMs: m.DeliverAt.UnixMilli(), Priority: int32(m.Priority), Attempt: int32(m.Attempt),
		Headers: make([]*sinkv1.Header, len(delivered)),
	}
	if !m.ExpiresAt.IsZero() {
		p.ExpiresAtMs = m.ExpiresAt.UnixMilli()
	}
	headers := make([]sinkv1.Header, len(delivered))
	for n, h := range delivered {
		headers[n].Name, headers[n].Value = h.Name, h.Value
		p.Headers[n] = &headers[n]
	}
	return p
}

// fromProto is the reverse of toProto: a sink behind the boundary gets the
// message that it would get before it. The sink's name stays with the host.
func fromProto(p *sinkv1.Message) *core.Message {
	m := &core.Message{
		ID: p.Id, Topic: p.Topic, Key: p.Key, Body: p.Body, Options: p.Options,
		DeliverAt: time.UnixMilli(p.DeliverAtMs).UTC(), Priority: int(p.Priority), Attempt: int(p.Attempt),
	}
	if p.ExpiresAtMs != 0 {
		m.ExpiresAt = time.UnixMilli(p.ExpiresAtMs).UTC()
	}
	if own := len(p.Headers) - core.AddedHeaders; own > 0 {
		m.Headers = make([]core.Header, own)
		for n, h := range p.Headers[:own] {
			m.Headers[n] = core.Header{Name: h.Name, Value: h.Value}
		}
	}
	return m
}
