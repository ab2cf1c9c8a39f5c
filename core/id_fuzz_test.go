package core

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzNames: an ID or a sink's name that passes is short, is one word of ASCII,
// and can't be taken for a path, a pattern, or the braces of a Redis key.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "a", ".", "..", "...", "-a", "a b", "a\n", "a{b}", "a*", "a%2Fb", "é", "\xff", "a/../b", "a:b", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 129)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		const never = "{}*?[]\\\"'`$&|;<>()#%,!^"
		bad := name == "" || name == "." || name == ".." || !utf8.ValidString(name) || strings.ContainsAny(name, never) ||
			strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
		if CheckID(name) == nil && (bad || len(name) > MaxIDLen) {
			t.Errorf("%q passes for an id", name)
		}
		if CheckSinkName(name) == nil && (bad || len(name) > maxSinkLen || strings.ContainsAny(name, ":/@+=~")) {
			t.Errorf("%q passes for a sink", name)
		}
		for _, err := range []*InvalidError{CheckID(name), CheckSinkName(name)} {
			if err != nil && (len(err.Error()) > 200 || strings.ContainsFunc(err.Error(), unicode.IsControl)) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// FuzzBucketOfID: the bucket of a message is one that there is, is the same each
// time, and for an ID of ours the one that it was made for.
func FuzzBucketOfID(f *testing.F) {
	ids := NewIDs()
	f.Add(ids.New(0, time.UnixMilli(0)), []byte(nil), uint16(0), int64(0))
	f.Add(ids.New(MaxBuckets-1, time.UnixMilli(1<<47)), []byte("key"), uint16(1023), int64(1<<47))
	f.Add(strings.Repeat("v", 23), []byte{}, uint16(15), int64(-1))
	f.Add("0123456789abcdefghijklw", []byte("k"), uint16(15), int64(1_700_000_000_000))
	f.Add("\xff", []byte("\xff"), uint16(1), int64(1))
	f.Fuzz(func(t *testing.T, id string, key []byte, buckets uint16, ms int64) {
		n := int(buckets)%MaxBuckets + 1
		for _, k := range [][]byte{nil, key} {
			if got := BucketOf(k, id, n); got < 0 || got >= n || got != BucketOf(k, id, n) {
				t.Errorf("%q with key %q is in bucket %d of %d", id, k, got, n)
			}
		}
		if bucket, ok := BucketOfID(id); ok && (bucket < 0 || bucket >= MaxBuckets || CheckID(id) != nil) {
			t.Errorf("%q carries bucket %d", id, bucket)
		}
		made := ids.New(n-1, time.UnixMilli(ms))
		if bucket, ok := BucketOfID(made); !ok || bucket != n-1 || CheckID(made) != nil || BucketOf(nil, made, n) != n-1 || ids.New(n-1, time.UnixMilli(ms)) == made {
			t.Errorf("%q carries bucket %d, want %d", made, bucket, n-1)
		}
	})
}
