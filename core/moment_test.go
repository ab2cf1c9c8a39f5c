package core

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{
		"0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, ".5s": 500 * time.Millisecond,
		"2d": 48 * time.Hour, "1w2d3h": (9*24 + 3) * time.Hour, "1ms": time.Millisecond, "3us": 3 * time.Microsecond, "3µs": 3 * time.Microsecond, "7ns": 7,
		"0.000000000000000001s": 1, "1.0000000001s": time.Second + 1, "0.5ns": 1, "00000000000000000000001s": time.Second, "1.50000000000000000000000s": 1500 * time.Millisecond,
		"P1D": day, "PT0S": 0, "P1DT2H": 26 * time.Hour, "P2W": 2 * week, "PT1H30M": 90 * time.Minute, "PT0.5S": 500 * time.Millisecond, "P1W1DT1H1M1S": 8*day + time.Hour + time.Minute + time.Second,
		"106751d": 106751 * day,
	}
	for text, want := range good {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " ", "5", "0", "1.5", "1e3s", "-1s", "+1s", "-P1D", "P-1D", "1 s", "1s ", " 1s", "s", "1", "1y", "1M", "1mo", "1S", "1..5s", "1.5.5s", ".s", "1s.",
		"P", "PT", "P1", "P1H", "P1DT", "PT1D", "P1Y", "P1M", "P1Y2M", "PTS", "PT1S1S", "PT1S1H", "P1D1W", "p1d", "PT1,5S", "P1DT1HT1M", "P1D2D",
		"106752d", "9223372036854775808ns", "99999999999999999999s", "106751d24h", "0.0000000000000000001s", "NaN", "Infs", "1\x00s", "१s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	good := map[string]time.Time{
		"2031-05-20T09:30:00Z":                time.Date(2031, 5, 20, 9, 30, 0, 0, time.UTC),
		"2031-05-20T09:30:00.123456789+02:00": time.Date(2031, 5, 20, 7, 30, 0, 123456789, time.UTC),
		"2031-05-20T09:30:00.1-23:59":         time.Date(2031, 5, 21, 9, 29, 0, 1e8, time.UTC),
		"2032-02-29T23:59:59-00:00":           time.Date(2032, 2, 29, 23, 59, 59, 0, time.UTC),
		"1970-01-01T00:00:00Z":                time.Unix(0, 0),
	}
	for text, want := range good {
		if got, err := ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2031-05-20", "2031-05-20T09:30Z", "2031-05-20T09:30:00", "2031-05-20 09:30:00Z", "2031-05-20t09:30:00z", "2031-05-20T9:30:00Z",
		"2031-05-20T09:30:00,5Z", "2031-05-20T09:30:00.Z", "2031-05-20T09:30:00.1234567890Z", "2031-05-20T09:30:00+0200", "2031-05-20T09:30:00+24:00", "2031-05-20T09:30:00+02:60",
		"2031-02-30T00:00:00Z", "2031-02-29T00:00:00Z", "2031-13-01T00:00:00Z", "2031-05-20T24:00:00Z", "2031-05-20T09:30:60Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
		"1969-12-31T23:59:59.999Z", "12031-05-20T09:30:00Z", "+12026-01-01T00:00:00Z", "2031-05-20T09:30:00Z ", "2031-05-20T09:30:00Zx", "1900000000", "2031-W20-2T09:30:00Z", "२०३१-05-20T09:30:00Z"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// What both read, they read alike, but for what is finer than a nanosecond.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "1.5s", ".5ms", "0.0000000001s", "P1DT2H", "9999999h", "1d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseDuration(text)
		if err != nil {
			return
		}
		if got < 0 {
			t.Fatalf("%q: got %v", text, got)
		}
		want, err := time.ParseDuration(text)
		if err == nil && (got < want || got > want+64) {
			t.Errorf("%q: got %d, the standard library %d", text, got, want)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	f.Add("2031-05-20T09:30:00.123456789+02:00")
	f.Add("2031-05-20T09:30:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTime(text)
		if err != nil {
			return
		}
		want, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, the standard library %v, %v", text, got, want, err)
		}
	})
}
