package redisstore

import "fmt"

// warn logs what did not work. One Redis that is unreachable concerns every bucket
// of every sink: of each text the log has a few lines a second from all of them.
func (v *server) warn(text, where string, more ...any) {
	if v.summary.First(v.config.Log, text, "", where) {
		v.log.Warn(text, more...)
	}
}

// warnOf is warn for trouble with one bucket.
func (v *server) warnOf(bucket int, text string, err error) {
	v.warn(text, fmt.Sprintf("%s:%02d", v.sink, bucket), "bucket", bucket, "err", err)
}

// heard notes whether Redis answered a heartbeat. That it answers again is logged
// once, when it does so for all sinks.
func (v *server) heard(err error) {
	was := v.silent
	v.silent = err != nil
	switch {
	case v.silent && !was:
		v.silentSinks.Add(1)
		v.warn("heartbeat failed", v.sink, "err", err)
	case was && !v.silent:
		if v.silentSinks.Add(-1) == 0 {
			v.config.Log.Info("heartbeats get through again")
		}
	}
}

// stopped takes a sink out of what heard counts.
func (v *server) stopped() {
	if v.silent {
		v.silentSinks.Add(-1)
	}
}
