package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escape makes s one line that does not drive a terminal: what is not printable,
// or not UTF-8, becomes \x1b, \u202e and the like.
func escape(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// shorten escapes s and cuts it to n characters.
func shorten(s string, n int) string {
	runes := []rune(escape(s))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}

// escapeJSON does for a JSON text what escape does for a line. What is not
// printable and not white space stands within strings only, where \u is valid.
func escapeJSON(text []byte) string {
	var out strings.Builder
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == ' ' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
