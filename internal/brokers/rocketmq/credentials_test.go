package rocketmq

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"testing"
)

func TestSign(t *testing.T) {
	c := Credentials{AccessKey: "user", SecretKey: "secret", SecurityToken: "t"}
	fields := map[string]string{"topic": "x", "b": "y"}
	signed := c.sign(fields, []byte("body"))
	// HMAC-SHA1 of "user" "t" "y" "x" "body": values in the order of their names.
	if signed["Signature"] != signatureOf("usertyxbody", "secret") || signed["AccessKey"] != "user" || signed["SecurityToken"] != "t" {
		t.Errorf("%q", signed)
	}
	if len(fields) != 2 {
		t.Errorf("the caller's fields have become %q", fields)
	}
}

func signatureOf(text, secret string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
