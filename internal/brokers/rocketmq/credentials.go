package rocketmq

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // it is what the protocol has
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// Credentials sign requests, as clusters with access control (ACL) want it. The zero
// value signs nothing.
type Credentials struct{ AccessKey, SecretKey, SecurityToken string }

func (c *Credentials) check() error {
	for _, field := range []struct{ name, value string }{
		{"access_key", c.AccessKey}, {"secret_key", c.SecretKey}, {"security_token", c.SecurityToken},
	} {
		if len(field.value) > maxCredentialLen || strings.ContainsFunc(field.value, notPrintable) {
			return core.Invalidf(field.name, "may hold up to %d printable ASCII characters without spaces", maxCredentialLen)
		}
	}
	switch {
	case c.AccessKey == "" && c.SecretKey != "":
		return core.Invalidf("access_key", "is missing, as there is a secret_key")
	case c.AccessKey != "" && c.SecretKey == "":
		return core.Invalidf("secret_key", "is missing, as there is an access_key")
	case c.SecurityToken != "" && c.AccessKey == "":
		return core.Invalidf("security_token", "needs an access_key and a secret_key")
	}
	return nil
}

// sign returns fields with a signature, or as they are without credentials.
func (c *Credentials) sign(fields map[string]string, body []byte) map[string]string {
	if c.AccessKey == "" {
		return fields
	}
	signed := make(map[string]string, len(fields)+3)
	maps.Copy(signed, fields)
	signed["AccessKey"] = c.AccessKey
	if c.SecurityToken != "" {
		signed["SecurityToken"] = c.SecurityToken
	}
	mac := hmac.New(sha1.New, []byte(c.SecretKey))
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		mac.Write([]byte(signed[name]))
	}
	mac.Write(body)
	signed["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return signed
}
