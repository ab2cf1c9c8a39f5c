// Package auth authenticates producers with bearer tokens, and limits failed attempts.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
)

// MinTokenLen is the minimum length of a token. Addresses are not locked out, so a
// token must not be guessable.
const MinTokenLen = 16

const hashPrefix = "sha256:"

// Hash is the SHA-256 of a token.
type Hash = [sha256.Size]byte

// Tokens are the hashes of the valid tokens. They can be replaced while requests are
// served. Call Set before any other method.
type Tokens struct{ hashes atomic.Pointer[[]Hash] }

// Set replaces the valid tokens.
func (t *Tokens) Set(hashes []Hash) { t.hashes.Store(&hashes) }

// Adopt replaces the valid tokens by those of next.
func (t *Tokens) Adopt(next *Tokens) { t.hashes.Store(next.hashes.Load()) }

// None reports whether no token is required.
func (t *Tokens) None() bool { return len(*t.hashes.Load()) == 0 }

// Admit reports whether token is valid, in constant time.
func (t *Tokens) Admit(token string) bool {
	given, found := sha256.Sum256([]byte(token)), 0
	for _, hash := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(given[:], hash[:])
	}
	return found == 1
}

// HashTokens checks the entries of a configuration: each is a token, of at least
// MinTokenLen printable ASCII characters, or "sha256:" and the hash of one in hex.
// Errors name an entry by its index, never by its value.
func HashTokens(entries []string) ([]Hash, error) {
	hashes := make([]Hash, len(entries))
	for n, entry := range entries {
		hash, err := hashToken(entry)
		if err != nil {
			return nil, fmt.Errorf("token %d %w", n+1, err)
		}
		hashes[n] = hash
	}
	return hashes, nil
}

func hashToken(entry string) (Hash, error) {
	if digits, ok := strings.CutPrefix(entry, hashPrefix); ok {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != sha256.Size {
			return Hash{}, fmt.Errorf("is not %s and %d hex digits", hashPrefix, 2*sha256.Size)
		}
		return Hash(raw), nil
	}
	if len(entry) < MinTokenLen {
		return Hash{}, fmt.Errorf("is shorter than %d characters; make one with: openssl rand -hex 32", MinTokenLen)
	}
	if strings.ContainsFunc(entry, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Hash{}, fmt.Errorf("has characters other than printable ASCII without spaces")
	}
	return sha256.Sum256([]byte(entry)), nil
}
