package grpclistener

import (
	"cmp"
	"context"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
)

const defaultLimit = 100

// List implements bridgev1.BridgeServiceServer.
func (b *bridge) List(ctx context.Context, request *bridgev1.ListRequest) (*bridgev1.ListResponse, error) {
	query, err := queryOf(request)
	if err != nil {
		return nil, lookError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := b.in.List(ctx, query)
	if err != nil {
		return nil, lookError(err)
	}
	response := &bridgev1.ListResponse{Entries: make([]*bridgev1.Entry, len(page.Entries)), NextCursor: page.Next}
	for n, entry := range page.Entries {
		response.Entries[n] = entryOf(entry, false)
	}
	return response, nil
}

// queryOf reads what a list selects; core checks it.
func queryOf(request *bridgev1.ListRequest) (query core.Query, err error) {
	query = core.Query{Sinks: request.Sinks, Topic: request.Topic, Cursor: request.Cursor,
		Limit: cmp.Or(int(request.Limit), defaultLimit)}
	for _, state := range request.States {
		query.States = append(query.States, coreState(state))
	}
	if query.DueAfter, err = moment("due_after", request.DueAfter); err != nil {
		return query, err
	}
	query.DueBefore, err = moment("due_before", request.DueBefore)
	return query, err
}
