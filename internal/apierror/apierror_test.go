package apierror

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/delaybridge/delaybridge/core"
)

func TestOf(t *testing.T) {
	large := &core.InvalidError{Field: "body", Reason: "is large", TooLarge: true}
	tests := map[string]struct {
		err         error
		code, field string
		retry       time.Duration
	}{
		"rule":                       {core.Invalidf("topic", "is missing"), Invalid, "topic", 0},
		"large body":                 {large, TooLarge, "body", 0},
		"large headers":              {&core.InvalidError{Field: "headers", TooLarge: true}, Invalid, "headers", 0},
		"wrapped rule":               {fmt.Errorf("at: %w", large), TooLarge, "body", 0},
		"not found":                  {core.ErrNotFound, NotFound, "", 0},
		"too late":                   {core.ErrTooLate, TooLate, "", 0},
		"conflict":                   {fmt.Errorf("park: %w", core.ErrConflict), Conflict, "", 0},
		"ambiguous":                  {core.ErrAmbiguous, Ambiguous, "", 0},
		"cursor":                     {core.ErrBadCursor, BadCursor, "", 0},
		"no inspector":               {core.ErrNoInspector, NotSupported, "", 0},
		"unavailable":                {core.ErrUnavailable, Unavailable, "", time.Second},
		"full, not only unreachable": {fmt.Errorf("park: %w", core.ErrFull), Full, "", 5 * time.Second},
		"unknown":                    {core.ErrUnknown, Unknown, "", time.Second},
		"what nobody foresees":       {errors.New("surprise"), Unknown, "", time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := Of(test.err)
			if f.Code != test.code || f.Field != test.field || f.Detail == "" {
				t.Errorf("got %+v", f)
			}
			if got := RetryAfter(f.Code); got != test.retry {
				t.Errorf("retry after %s, want %s", got, test.retry)
			}
		})
	}
}

func TestDetailIsBoundedAndText(t *testing.T) {
	f := Of(errors.New("\xff" + strings.Repeat("é", 1000)))
	if len(f.Detail) > maxDetail || !utf8.ValidString(f.Detail) {
		t.Errorf("%d bytes, valid %t", len(f.Detail), utf8.ValidString(f.Detail))
	}
}
