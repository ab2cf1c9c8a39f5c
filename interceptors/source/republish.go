package source

import (
	"context"
	"errors"

	"github.com/delaybridge/delaybridge/core"
)

// wasDelivered reports whether the message that has the ID of m was delivered; state
// is what is known of it, if anything. While it is being delivered, whoever has
// published m may have it already, so that is waited for.
func (p *Parker) wasDelivered(ctx context.Context, m *core.Message, state core.State) (bool, error) {
	for state == "" || state == core.Delivering {
		entry, err := p.In.Get(ctx, core.Ref{ID: m.ID, Sink: m.Sink, Key: m.Key})
		switch {
		case errors.Is(err, core.ErrNotFound):
			return true, nil // and is forgotten since
		case err != nil:
			return false, err
		}
		if state = entry.State; state == core.Delivering && !Sleep(ctx, firstPause) {
			return false, context.Cause(ctx)
		}
	}
	return state == core.Delivered, nil
}

// republish makes a message of its own of what has the ID of one that was
// delivered.
func (i *Item) republish() {
	i.Message.ID, i.Message.Hop, i.New = "", max(i.Message.Hop, 1), false
}
