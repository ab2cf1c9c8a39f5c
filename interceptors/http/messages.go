package httplistener

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/delaybridge/delaybridge/core"
)

func (s *Server) getMessage(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	entry, err := s.in.Get(ctx, ref)
	if err != nil {
		return err
	}
	return s.writeJSON(w, http.StatusOK, newEntryJSON(entry, true))
}

func (s *Server) reschedule(w http.ResponseWriter, r *http.Request) error {
	when, err := s.readWhen(w, r)
	if err != nil {
		return changeProblem(core.Receipt{}, err)
	}
	return s.change(func(ctx context.Context, ref core.Ref) (core.Receipt, error) {
		return s.in.Reschedule(ctx, ref, when)
	})(w, r)
}

// readWhen reads {"delay": ...} or {"deliver_at": ...}.
func (s *Server) readWhen(w http.ResponseWriter, r *http.Request) (core.When, error) {
	if _, err := checkForm(r, "application/json", "application/merge-patch+json"); err != nil {
		return core.When{}, err
	}
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	if err := read(w, r, buffer, envelopeBytes); err != nil {
		return core.When{}, err
	}
	e := envelope{scanner: newScanner(buffer.Bytes()), allowed: whenFields}
	err := e.decode()
	return core.When{At: e.message.DeliverAt, After: e.message.Delay}, err
}

// change serves a call by id that answers with a receipt.
func (s *Server) change(act func(context.Context, core.Ref) (core.Receipt, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ref, err := refOf(r)
		if err != nil {
			return changeProblem(core.Receipt{}, err)
		}
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		receipt, err := act(ctx, ref)
		if err != nil {
			return changeProblem(receipt, err)
		}
		return s.writeJSON(w, http.StatusOK, newReceiptJSON(receipt))
	}
}

// refOf reads which message a call by id means.
func refOf(r *http.Request) (core.Ref, error) {
	ref := core.Ref{ID: r.PathValue("id")}
	query, err := queryOf(r, nil, "sink", "key", "key_base64")
	if err != nil {
		return ref, err
	}
	if ref.Sink = query.Get("sink"); query.Has("sink") && ref.Sink == "" {
		return ref, core.Invalidf("sink", "is empty")
	}
	ref.Key, err = keyOf(query)
	return ref, err
}

// keyOf reads the key of a query; nil if there is none.
func keyOf(query url.Values) ([]byte, error) {
	switch {
	case query.Has("key") && query.Has("key_base64"):
		return nil, core.Invalidf("key_base64", "can't be used together with key")
	case query.Has("key"):
		return []byte(query.Get("key")), nil
	case query.Has("key_base64"):
		return decodeBase64("key_base64", query.Get("key_base64"))
	}
	return nil, nil
}

// queryOf parses the query; only the names given are allowed, each once, but
// for those that may repeat.
func queryOf(r *http.Request, repeated []string, names ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, core.Invalidf("query", "can't be read")
	}
	for name, values := range query {
		switch repeats := slices.Contains(repeated, name); {
		case !repeats && !slices.Contains(names, name):
			return nil, core.Invalidf(plain(name, maxEcho), "is not a known parameter")
		case len(values) > 1 && !repeats:
			return nil, core.Invalidf(name, "appears twice")
		}
	}
	return query, nil
}
