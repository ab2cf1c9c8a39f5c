package dialect

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var (
	errNull   = errors.New("is null")
	errText   = errors.New("must be text")
	errNumber = errors.New("must be a number")
	errLong   = errors.New("is longer than can be counted")
)

// textOf returns what was given as text. A nil []byte is null, as in a core.Header.
func textOf(raw any) ([]byte, error) {
	switch v := raw.(type) {
	case nil:
		return nil, errNull
	case []byte:
		return bytesOf(v)
	case *[]byte:
		return bytesOf(*v)
	case string:
		return []byte(v), nil
	}
	return nil, errText
}

func bytesOf(v []byte) ([]byte, error) {
	if v == nil {
		return nil, errNull
	}
	return v, nil
}

// numberOf returns what was given as a number, or as text of one. A fraction
// is rounded up, as down would be early. What is too large is errLong; what is
// too small becomes the smallest.
func numberOf(raw any) (int64, error) {
	switch v := raw.(type) {
	case nil, []byte, *[]byte, string:
		text, err := textOf(raw)
		if err != nil {
			return 0, err
		}
		return numberOfText(string(text))
	case float64:
		return numberOfFloat(v)
	case float32:
		return numberOfFloat(float64(v))
	case uint64:
		return numberOfUint(v)
	case uint:
		return numberOfUint(uint64(v))
	}
	return smallerInt(raw)
}

// smallerInt is for the integers that an int64 can hold.
func smallerInt(raw any) (int64, error) {
	switch v := raw.(type) {
	case int64:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	}
	return 0, errNumber
}

func numberOfUint(v uint64) (int64, error) {
	if v > math.MaxInt64 {
		return 0, errLong
	}
	return int64(v), nil
}

func numberOfFloat(v float64) (int64, error) {
	switch v = math.Ceil(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, errNumber
	case v >= math.MaxInt64: // as a float64 that is 2^63
		return 0, errLong
	}
	return int64(max(v, math.MinInt64)), nil
}

// maxDigits bounds how long a number in text can be: it comes back as it was.
const maxDigits = 64

// numberOfText takes decimal digits, with a minus before and a fraction behind them or
// without, and nothing else.
func numberOfText(text string) (int64, error) {
	whole, fraction, cut := strings.Cut(text, ".")
	digits := strings.TrimPrefix(whole, "-")
	if digits == "" || cut && fraction == "" || len(text) > maxDigits || strings.Trim(digits+fraction, "0123456789") != "" {
		return 0, errNumber
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	up := strings.Trim(fraction, "0") != "" && digits == whole
	switch {
	case err != nil && n > 0, up && n == math.MaxInt64:
		return 0, errLong
	case up:
		n++
	}
	return n, nil // ParseInt has cut it to the smallest if need be
}

// timeOf: some protocols have a type for times.
func timeOf(raw any) (t time.Time, ok bool) {
	t, ok = raw.(time.Time)
	return t, ok
}
