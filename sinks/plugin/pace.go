package plugin

import "time"

// pace is how quickly a plugin is given up and restarted.
type pace struct {
	// The first wait before a plugin that has ended is restarted; it doubles
	// each time, up to the longest.
	first, longest time.Duration
	// calm is how long a plugin must live for what was before to be forgotten.
	calm time.Duration
	// As many ends within a calm quarantine it: it is then tried once a calm.
	crashes int
	// check is how long a plugin may take to say that it lives.
	check time.Duration
	// silence is how long it may answer no Deliver at all though it says that it lives.
	silence time.Duration
	// term is how long it has between SIGTERM and SIGKILL.
	term time.Duration
}

func standardPace() pace {
	return pace{
		first: 100 * time.Millisecond, longest: 30 * time.Second, calm: time.Minute, crashes: 5,
		check: 2 * time.Second, silence: time.Minute, term: time.Second,
	}
}

// restarts decides when a plugin that keeps ending is tried again.
type restarts struct {
	pace
	wait        time.Duration // the last one
	ends        []time.Time   // the last few
	quarantined bool
}

// ended counts an end at now after a life of lived (0: it never ran), and
// returns how long to wait before the next try. An end on a single message does not
// count: that message is tried again later and later, and the others must not wait.
func (r *restarts) ended(now time.Time, lived time.Duration, onOne bool) time.Duration {
	if lived >= r.calm {
		*r = restarts{pace: r.pace}
	}
	if onOne && !r.quarantined {
		return r.first
	}
	r.ends = append(r.ends, now)
	if len(r.ends) > r.crashes {
		r.ends = r.ends[1:]
	}
	if len(r.ends) == r.crashes && now.Sub(r.ends[0]) < r.calm {
		r.quarantined = true
	}
	if r.quarantined {
		return r.calm
	}
	r.wait = min(max(2*r.wait, r.first), r.longest)
	return r.wait
}
