package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delaybridge/delaybridge/core"
)

// delivery is one Deliver at work.
type delivery struct {
	sink     *Sink
	messages []*outgoing // nil: refused as it is
	outcomes []outcome
	left     int              // messages that are unsent
	bad      map[string]error // exchanges that refused a message of this batch
}

// outcome is what is known of one message.
type outcome struct {
	state state
	err   error // classified: nil is confirmed
}

type state int

const (
	unsent state = iota
	lost         // may have been sent
	classified
)

// newDelivery translates the batch. What can't be carried is refused permanently:
// it was accepted under other limits.
func (s *Sink) newDelivery(batch []*core.Message) *delivery {
	d := &delivery{sink: s, messages: make([]*outgoing, len(batch)), outcomes: make([]outcome, len(batch)), left: len(batch)}
	for i, m := range batch {
		o, err := s.outgoing(m)
		if err != nil {
			d.classify(i, core.Classify(core.Permanent, err))
			continue
		}
		d.messages[i] = o
	}
	return d
}

func (d *delivery) classify(i int, err error) {
	if d.outcomes[i].state == unsent {
		d.left--
	}
	d.outcomes[i] = outcome{classified, err}
}

// run publishes all that is unsent, in order, in as few batches as can be. It
// returns the trouble that kept it from going on.
func (d *delivery) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	link := d.sink.links[d.sink.turn.Add(1)%uint32(len(d.sink.links))]
	for d.left > 0 {
		session, err := link.session(ctx)
		if err != nil {
			return err
		}
		places, suspect := d.next(session)
		switch {
		case len(places) == 0:
			continue // all that was left went to a bad exchange
		case suspect:
			err = d.flyApart(ctx, places)
		default:
			err = d.fly(ctx, session, places, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next returns the places of the messages that may go together now: a run of
// harmless ones, or one that is to go alone.
func (d *delivery) next(session *session) (places []int, suspect bool) {
	for i, m := range d.messages {
		if d.outcomes[i].state != unsent {
			continue
		}
		if err := cmp.Or(d.bad[m.exchange], session.fits(m)); err != nil {
			d.classify(i, err)
			continue
		}
		suspect = d.sink.suspects.has(m.id)
		alone := suspect || !session.isProven(m.exchange)
		switch {
		case alone && len(places) == 0:
			return []int{i}, suspect
		case alone, len(places) == core.MaxTake:
			return places, false
		}
		places = append(places, i)
	}
	return places, false
}

// flyApart sends one suspect on a connection where there is nothing else.
func (d *delivery) flyApart(ctx context.Context, places []int) error {
	select {
	case d.sink.apartTurn <- struct{}{}:
		defer func() { <-d.sink.apartTurn }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the separate connection: %w", context.Cause(ctx))
	}
	session, err := d.sink.apart.session(ctx)
	if err != nil {
		return err
	}
	return d.fly(ctx, session, places, true)
}

// fly publishes the messages at places on one channel and notes their outcomes.
// apart reports that the whole connection is theirs.
func (d *delivery) fly(ctx context.Context, session *session, places []int, apart bool) error {
	if err := session.held(); err != nil {
		return err
	}
	p, err := session.publisher(ctx)
	if err != nil {
		return err
	}
	messages := make([]*outgoing, len(places))
	for n, i := range places {
		messages[n] = d.messages[i]
	}
	l := p.fly(ctx, messages, d.sink.mandatory)
	if l.cutShort != nil {
		session.discard(p)
	} else {
		session.release(p)
	}
	if blamed(l.exception) != nobody {
		session.doubt()
	}
	if len(places) == 1 && l.begun == 1 && !errors.Is(l.results[0], errLost) {
		session.prove(messages[0].exchange)
	}
	d.land(places, l, apart)
	return d.trouble(session, l)
}

// land notes what became of a batch. Where the broker closed the channel, or
// the connection, the culprit is known if it was the only one without a confirm.
func (d *delivery) land(places []int, l landing, apart bool) {
	guilt := blamed(l.exception)
	pinned := guilt != nobody && l.lost() == 1 && (apart || l.exception.Recover)
	for n, result := range l.results {
		i := places[n]
		id := d.messages[i].id
		switch {
		case !errors.Is(result, errLost):
			d.sink.suspects.clear(id)
			d.classify(i, result)
		case pinned:
			d.sink.suspects.clear(id)
			d.classifySuspect(i, guilt, l.exception)
		default:
			d.left--
			d.outcomes[i] = outcome{lost, l.explain(result)}
			if guilt != nobody {
				d.sink.suspects.add(id)
			}
		}
	}
}

// classifySuspect classifies the message that made the broker close the channel.
func (d *delivery) classifySuspect(i int, guilt blame, exception *amqp091.Error) {
	m := d.messages[i]
	err := core.Classify(guilt.class(), fmt.Errorf("exchange %q, routing key %q: %w", m.exchange, m.key, exception))
	d.classify(i, err)
	if guilt == itsDirection {
		if d.bad == nil {
			d.bad = map[string]error{}
		}
		d.bad[m.exchange] = err
	}
}

// trouble reports why there is no going on after a batch, if so.
func (d *delivery) trouble(session *session, l landing) error {
	switch {
	case l.cutShort != nil:
		if held := session.held(); held != nil {
			return fmt.Errorf("%w (%w)", l.cutShort, held)
		}
		return l.cutShort
	case session.over() && d.left > 0 && l.begun > 0:
		return session.why()
	}
	return nil
}

// result is the answer of Deliver. What is trouble of the sink as a whole is
// told as one error, unless some messages have a result of their own.
func (d *delivery) result(trouble error) error {
	count, failed := [3]int{}, false
	for _, f := range d.outcomes {
		count[f.state]++
		failed = failed || f.err != nil
		if f.state == lost && trouble == nil {
			trouble = f.err
		}
	}
	switch {
	case count[classified] == len(d.outcomes) && !failed:
		return nil
	case count[classified] == 0 && count[lost] == 0:
		return trouble
	case count[classified] == 0:
		return core.Classify(core.Unknown, trouble)
	}
	return d.each(trouble)
}

// each gives every message its result.
func (d *delivery) each(trouble error) core.BatchError {
	results := make(core.BatchError, len(d.outcomes))
	for i, f := range d.outcomes {
		switch f.state {
		case classified:
			results[i] = f.err
		case lost:
			results[i] = core.Classify(core.Unknown, f.err)
		case unsent:
			results[i] = trouble
		}
	}
	return results
}
