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
	fates    []fate
	left     int              // messages that are unsent
	bad      map[string]error // exchanges that refused a message of this batch
}

// fate is what is known of one message.
type fate struct {
	state state
	err   error // judged: nil is confirmed
}

type state int

const (
	unsent state = iota
	lost         // may have been sent
	judged
)

// newDelivery translates the batch. What can't be carried is refused for good:
// it was accepted under other limits.
func (s *Sink) newDelivery(batch []*core.Message) *delivery {
	d := &delivery{sink: s, messages: make([]*outgoing, len(batch)), fates: make([]fate, len(batch)), left: len(batch)}
	for i, m := range batch {
		o, err := s.outgoing(m)
		if err != nil {
			d.judge(i, core.Classify(core.Permanent, err))
			continue
		}
		d.messages[i] = o
	}
	return d
}

func (d *delivery) judge(i int, err error) {
	if d.fates[i].state == unsent {
		d.left--
	}
	d.fates[i] = fate{judged, err}
}

// run publishes all that is unsent, in order, in as few flights as can be. It
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
		if d.fates[i].state != unsent {
			continue
		}
		if err := cmp.Or(d.bad[m.exchange], session.fits(m)); err != nil {
			d.judge(i, err)
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
		return fmt.Errorf("wait for the connection apart: %w", context.Cause(ctx))
	}
	session, err := d.sink.apart.session(ctx)
	if err != nil {
		return err
	}
	return d.fly(ctx, session, places, true)
}

// fly publishes the messages at places on one channel and notes their fates.
// apart tells that the whole connection is theirs.
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
	if len(places) == 1 && l.begun == 1 && !errors.Is(l.verdicts[0], errLost) {
		session.prove(messages[0].exchange)
	}
	d.land(places, l, apart)
	return d.trouble(session, l)
}

// land notes what became of a flight. Where the broker closed the channel, or
// the connection, the culprit is known if it was the only one without a confirm.
func (d *delivery) land(places []int, l landing, apart bool) {
	guilt := blamed(l.exception)
	pinned := guilt != nobody && l.lost() == 1 && (apart || l.exception.Recover)
	for n, verdict := range l.verdicts {
		i := places[n]
		id := d.messages[i].id
		switch {
		case !errors.Is(verdict, errLost):
			d.sink.suspects.clear(id)
			d.judge(i, verdict)
		case pinned:
			d.sink.suspects.clear(id)
			d.convict(i, guilt, l.exception)
		default:
			d.left--
			d.fates[i] = fate{lost, l.explain(verdict)}
			if guilt != nobody {
				d.sink.suspects.add(id)
			}
		}
	}
}

// convict judges the message that made the broker close the channel.
func (d *delivery) convict(i int, guilt blame, exception *amqp091.Error) {
	m := d.messages[i]
	err := core.Classify(guilt.class(), fmt.Errorf("exchange %q, routing key %q: %w", m.exchange, m.key, exception))
	d.judge(i, err)
	if guilt == itsDirection {
		if d.bad == nil {
			d.bad = map[string]error{}
		}
		d.bad[m.exchange] = err
	}
}

// trouble tells why there is no going on after a flight, if so.
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
// told as one error, unless some messages have a verdict of their own.
func (d *delivery) result(trouble error) error {
	count, failed := [3]int{}, false
	for _, f := range d.fates {
		count[f.state]++
		failed = failed || f.err != nil
		if f.state == lost && trouble == nil {
			trouble = f.err
		}
	}
	switch {
	case count[judged] == len(d.fates) && !failed:
		return nil
	case count[judged] == 0 && count[lost] == 0:
		return trouble
	case count[judged] == 0:
		return core.Classify(core.Unknown, trouble)
	}
	return d.each(trouble)
}

// each gives every message its verdict.
func (d *delivery) each(trouble error) core.BatchError {
	verdicts := make(core.BatchError, len(d.fates))
	for i, f := range d.fates {
		switch f.state {
		case judged:
			verdicts[i] = f.err
		case lost:
			verdicts[i] = core.Classify(core.Unknown, f.err)
		case unsent:
			verdicts[i] = trouble
		}
	}
	return verdicts
}
