package httpdoor

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
)

// MinTokenLen is how short a token may be. There is no lock-out that guessing
// would run into, so a token must not be guessable.
const MinTokenLen = 16

const hashPrefix = "sha256:"

type tokenHash = [sha256.Size]byte

// tokens are the hashes of the tokens in force. They can be exchanged while
// requests are served.
type tokens struct{ hashes atomic.Pointer[[]tokenHash] }

func (t *tokens) set(hashes []tokenHash) { t.hashes.Store(&hashes) }

func (t *tokens) none() bool { return len(*t.hashes.Load()) == 0 }

// admit tells whether token is one of those in force, in a time that does not
// depend on which.
func (t *tokens) admit(token string) bool {
	given, found := sha256.Sum256([]byte(token)), 0
	for _, hash := range *t.hashes.Load() {
		found |= subtle.ConstantTimeCompare(given[:], hash[:])
	}
	return found == 1
}

// hashTokens checks the entries of Config.Tokens. Errors name an entry by its
// place, never by its value.
func hashTokens(entries []string) ([]tokenHash, error) {
	hashes := make([]tokenHash, len(entries))
	for n, entry := range entries {
		hash, err := hashToken(entry)
		if err != nil {
			return nil, fmt.Errorf("token %d %w", n+1, err)
		}
		hashes[n] = hash
	}
	return hashes, nil
}

func hashToken(entry string) (tokenHash, error) {
	if digits, ok := strings.CutPrefix(entry, hashPrefix); ok {
		raw, err := hex.DecodeString(digits)
		if err != nil || len(raw) != sha256.Size {
			return tokenHash{}, fmt.Errorf("is not %s and %d hex digits", hashPrefix, 2*sha256.Size)
		}
		return tokenHash(raw), nil
	}
	if len(entry) < MinTokenLen {
		return tokenHash{}, fmt.Errorf("is shorter than %d characters; make one with: openssl rand -hex 32", MinTokenLen)
	}
	if strings.ContainsFunc(entry, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return tokenHash{}, fmt.Errorf("has characters other than printable ASCII without spaces")
	}
	return sha256.Sum256([]byte(entry)), nil
}
