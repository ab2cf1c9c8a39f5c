package rocketmq

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // it is what the protocol has
	"encoding/base64"
	"maps"
	"slices"
)

// login signs requests, as servers with access control want it.
type login struct{ accessKey, secretKey, token string }

func (c Config) login() login { return login{c.AccessKey, c.SecretKey, c.SecurityToken} }

// sign returns the request with a signature, or as it is without credentials.
func (l login) sign(request command) command {
	if l.accessKey == "" {
		return request
	}
	fields := make(map[string]string, len(request.ExtFields)+3)
	maps.Copy(fields, request.ExtFields)
	fields["AccessKey"] = l.accessKey
	if l.token != "" {
		fields["SecurityToken"] = l.token
	}
	mac := hmac.New(sha1.New, []byte(l.secretKey))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		mac.Write([]byte(fields[name]))
	}
	mac.Write(request.body)
	fields["Signature"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	request.ExtFields = fields
	return request
}
