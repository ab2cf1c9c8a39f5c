package suite

import (
	"cmp"
	"slices"
	"time"
)

// plainKit is a Kit as the cases see it.
type plainKit = Kit[T]

// plain has the functions of a Kit take any T. They are only given what they expect.
func (k Kit[TB]) plain() plainKit {
	f := k.Faults
	return plainKit{
		Open: plainly(k.Open), NewTopic: plainly(k.NewTopic), Consume: plainlyOf(k.Consume),
		Can: k.Can, MaxBody: k.MaxBody, Delays: k.Delays, Hostile: k.Hostile,
		MissingTopic: k.MissingTopic.plain(), NoRights: k.NoRights.plain(), NegativeConfirm: k.NegativeConfirm.plain(),
		Unroutable: k.Unroutable.plain(), LoginRefused: k.LoginRefused.plain(),
		Faults: Faults[T]{
			Down: plainly(f.Down), Stall: plainly(f.Stall), LoseReplies: plainly(f.LoseReplies),
			Cut: plainlyDo(f.Cut), Restart: plainlyDo(f.Restart), StallTopic: plainlyOf(f.StallTopic),
		},
		Timeout: k.Timeout, ReadTimeout: k.ReadTimeout, Quiet: k.Quiet, Rounds: k.Rounds, Leaks: k.Leaks, patience: k.patience,
	}
}

func (r *Refusal[TB]) plain() *Refusal[T] {
	if r == nil {
		return nil
	}
	return &Refusal[T]{Topic: plainly(r.Topic), Open: plainly(r.Open), Prepare: r.Prepare, Class: r.Class}
}

func plainly[TB T, R any](f func(TB) R) func(T) R {
	if f == nil {
		return nil
	}
	return func(t T) R { return f(t.(TB)) }
}

func plainlyOf[TB T, R any](f func(TB, string) R) func(T, string) R {
	if f == nil {
		return nil
	}
	return func(t T, name string) R { return f(t.(TB), name) }
}

func plainlyDo[TB T](f func(TB)) func(T) {
	if f == nil {
		return nil
	}
	return func(t T) { f(t.(TB)) }
}

// withDefaults fills in the zero fields.
func (k Kit[TB]) withDefaults() Kit[TB] {
	k.Timeout = cmp.Or(k.Timeout, 3*time.Second)
	k.ReadTimeout = cmp.Or(k.ReadTimeout, time.Minute)
	k.Quiet = cmp.Or(k.Quiet, 150*time.Millisecond)
	k.Rounds = cmp.Or(k.Rounds, 100)
	k.patience = k.patience.withDefaults()
	return k
}

func (k Kit[TB]) can(c Capability) bool { return slices.Contains(k.Can, c) }
