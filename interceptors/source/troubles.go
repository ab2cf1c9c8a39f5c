package source

import (
	"log/slog"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

const logEvery = time.Minute // while trouble lasts

// Troubles logs what does not work, once a minute while it lasts.
// It is for one goroutine.
type Troubles struct {
	Log *slog.Logger
	Of  *Parker // whose report reports it, too

	since  time.Time // zero: all is well
	logged time.Time
}

// Report notes that what was tried has failed, and will be tried again.
func (t *Troubles) Report(what string, err error) {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	t.Of.note(t, what, err)
	if now.Sub(t.logged) > logEvery {
		t.logged = now
		t.Log.Warn("source is failing, retrying", "what", what, "err", core.Shorten(err.Error(), core.MaxErrorText))
	}
}

// Over notes that it works.
func (t *Troubles) Over() {
	t.Of.over(t)
	if !t.since.IsZero() {
		t.Log.Info("source has recovered", "failed_for", time.Since(t.since).Round(time.Millisecond))
		t.since, t.logged = time.Time{}, time.Time{}
	}
}

// trouble is what was last noted to hold a source up.
type trouble struct {
	by          any // who has noted it
	text        string
	since, last time.Time
}

// troubleLasts is for how long a trouble counts that nobody has noted again: who
// tries again does so every few seconds, or has ended.
const troubleLasts = time.Minute

// note has Report tell of what does not work.
func (p *Parker) note(by any, what string, err error) {
	if p == nil {
		return
	}
	now := time.Now()
	t := &trouble{by: by, text: core.Shorten(what+": "+err.Error(), core.MaxErrorText), since: now, last: now}
	if before := p.trouble.Load(); before != nil && now.Sub(before.last) < troubleLasts {
		t.since = before.since
	}
	p.trouble.Store(t)
}

// over takes back what by has noted last, if no other has since.
func (p *Parker) over(by any) {
	if p == nil {
		return
	}
	if t := p.trouble.Load(); t != nil && t.by == by {
		p.trouble.CompareAndSwap(t, nil)
	}
}
