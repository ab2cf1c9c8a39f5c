package redisstore

import (
	"context"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// The instances tell each other about themselves with their announcements of formats,
// so that it costs no call, and what an instance has told goes when its announcement
// does; lua/format.lua has both.

// report is what this instance tells now: nothing, if that is too long.
func (s *Store) report() []byte {
	tell := s.tell.Load()
	if tell == nil {
		return nil
	}
	report := (*tell)()
	if len(report) > core.MaxReport {
		return nil
	}
	return report
}

// Announce implements core.Fleet. The first report is published as soon as something is
// served or parked.
func (s *Store) Announce(report func() []byte) string {
	s.tell.Store(&report)
	s.formats.mu.Lock()
	defer s.formats.mu.Unlock()
	s.formats.tried = time.Time{}
	return s.config.Instance
}

// Announced implements core.Fleet.
func (s *Store) Announced(ctx context.Context) ([]core.Announcement, error) {
	c := newCall(ctx, s.scripts.fleet, []string{s.keys.meta(), s.keys.reports()})
	s.run(ctx, s.client, c)
	reply, err := c.Slice()
	if err != nil {
		return nil, fault("list instances", err)
	}
	announced := make([]core.Announcement, 0, len(reply))
	for _, one := range reply {
		parts, _ := one.([]any)
		if len(parts) != 3 {
			return nil, fault("list instances", errReply)
		}
		announced = append(announced, core.Announcement{Instance: text(parts[0]),
			Age: time.Duration(number(parts[1])) * time.Millisecond, Report: []byte(text(parts[2]))})
	}
	return announced, nil
}
