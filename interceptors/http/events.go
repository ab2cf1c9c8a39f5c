package httplistener

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/events"
)

const (
	// heartbeatEvery is how often a stream without events has a comment, so that proxies
	// keep it open and an end is noticed.
	heartbeatEvery = 15 * time.Second
	// eventTimeout bounds one write of a stream.
	eventTimeout = 10 * time.Second
	lastWrite    = time.Second
)

// events answers with a stream that ends with the reader, the server, or when the
// reader is too slow.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	filter, bodies, err := eventQuery(r)
	if err != nil {
		return err
	}
	if s.config.Events == nil {
		return newProblem(codeNotSupported, "this bridge has no stream of events")
	}
	reader, err := s.config.Events.Subscribe(filter, bodies)
	if err != nil {
		return newProblem(codeBusy, err.Error())
	}
	defer reader.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	header := w.Header()
	header["Content-Type"] = typeEvents
	header["X-Accel-Buffering"] = headerNo // nginx would wait for more
	stream := eventStream{w, http.NewResponseController(w)}
	// The bounds of the server are for requests that end.
	if err := supported(stream.control.SetReadDeadline(time.Time{})); err != nil {
		return fmt.Errorf("stream events: %w", err)
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	defer context.AfterFunc(ctx, stream.hurry)()
	if err := stream.run(ctx, reader); err != nil {
		s.config.Log.Debug("stream of events ended", "err", err)
	}
	return nil
}

// supported drops the error of a writer that has no deadlines: who wraps Handler bounds
// requests by other means.
func supported(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// eventQuery reads what is asked for.
func eventQuery(r *http.Request) (f events.Filter, bodies bool, err error) {
	query, err := queryOf(r, []string{"sink", "event"}, "topic", "id", "key", "key_base64", "bodies")
	if err != nil {
		return f, false, err
	}
	if f.Key, err = keyOf(query); err != nil {
		return f, false, err
	}
	f.Sinks, f.Events, f.Topic, f.ID = query["sink"], query["event"], query.Get("topic"), query.Get("id")
	if given := query.Get("bodies"); query.Has("bodies") && given != "true" && given != "false" {
		return f, false, core.Invalidf("bodies", "must be true or false")
	}
	return f, query.Get("bodies") == "true", f.Check()
}

// eventStream writes server-sent events.
type eventStream struct {
	w       io.Writer
	control *http.ResponseController
}

func (e eventStream) run(ctx context.Context, reader *events.Reader) error {
	err := e.write(ctx, ": what happens from now on\n\n")
	for err == nil {
		wait, cancel := context.WithTimeout(ctx, heartbeatEvery)
		var lines []events.Line
		lines, err = reader.Next(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return e.write(ctx, "event: end\ndata: {\"reason\":\"stopping\"}\n\n")
		case errors.Is(err, events.ErrSlow):
			return e.write(ctx, fmt.Sprintf("event: end\ndata: {\"reason\":\"slow\",\"dropped\":%d}\n\n", reader.Dropped()))
		case err != nil:
			err = e.write(ctx, ": nothing new\n\n")
		}
		for n := 0; n < len(lines) && err == nil && ctx.Err() == nil; n++ {
			err = e.send(ctx, fmt.Sprintf("event: %s\ndata: %s\n\n", lines[n].Event, lines[n].Data))
		}
		err = cmp.Or(err, supported(e.control.Flush()))
	}
	return err
}

func (e eventStream) write(ctx context.Context, text string) error {
	return cmp.Or(e.send(ctx, text), supported(e.control.Flush()))
}

func (e eventStream) send(ctx context.Context, text string) error {
	if err := supported(e.control.SetWriteDeadline(time.Now().Add(eventTimeout))); err != nil {
		return err
	}
	if ctx.Err() != nil {
		e.hurry()
	}
	_, err := io.WriteString(e.w, text)
	return err
}

// hurry ends a write that a reader holds up.
func (e eventStream) hurry() {
	_ = e.control.SetWriteDeadline(time.Now().Add(lastWrite)) // the write has its error
}
