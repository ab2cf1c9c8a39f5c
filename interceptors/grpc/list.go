package grpclistener

import (
	"cmp"
	"context"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/interceptors/grpc/bridgev1"
	"github.com/delaybridge/delaybridge/internal/apierror"
)

const defaultPageSize = 100

// List implements bridgev1.BridgeServiceServer.
func (b *bridge) List(ctx context.Context, request *bridgev1.ListRequest) (*bridgev1.ListResponse, error) {
	query, err := queryOf(request)
	if err != nil {
		return nil, listError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := b.in.List(ctx, query)
	if err != nil {
		return nil, listError(err)
	}
	response := &bridgev1.ListResponse{Entries: make([]*bridgev1.Entry, len(page.Entries)), NextPageToken: page.Next}
	for n, entry := range page.Entries {
		response.Entries[n] = entryOf(entry, false)
	}
	return response, nil
}

// queryOf reads what a list selects; core checks it.
func queryOf(request *bridgev1.ListRequest) (query core.Query, err error) {
	query = core.Query{Sinks: request.Sinks, Topic: request.Topic, Cursor: request.PageToken,
		Limit: min(cmp.Or(int(request.PageSize), defaultPageSize), core.MaxPage)}
	for _, state := range request.States {
		query.States = append(query.States, coreState(state))
	}
	if query.DueAfter, err = moment("due_after", request.DueAfter); err != nil {
		return query, err
	}
	query.DueBefore, err = moment("due_before", request.DueBefore)
	return query, err
}

func listError(err error) error {
	f := inRequest(err, listPath)
	if f.Code == apierror.BadCursor {
		f.Field, f.Detail = "page_token", "page_token: "+f.Detail
	}
	return statusOf(f, nil)
}

// listPath is the path of a field of core.Query in a ListRequest.
func listPath(field string) string {
	switch field {
	case "sink":
		return "sinks"
	case "state":
		return "states"
	case "limit":
		return "page_size"
	}
	return field
}
