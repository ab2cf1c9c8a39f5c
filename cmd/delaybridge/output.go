package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printer writes answers for people or for programs. Whatever a message holds,
// it comes out as printable text.
type printer struct {
	w    io.Writer
	json bool
}

func newPrinter(w io.Writer, format string) (printer, error) {
	if format != "table" && format != "json" {
		return printer{}, usageError("--output must be table or json")
	}
	return printer{w, format == "json"}, nil
}

// raw prints the JSON of an answer.
func (p printer) raw(text json.RawMessage) error {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return p.print(escapeJSON(out.Bytes()) + "\n")
}

// value prints v as JSON.
func (p printer) value(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return p.raw(text)
}

// pairs prints names and values below each other.
func (p printer) pairs(rows [][2]string) error {
	cells := make([][]string, len(rows))
	for n, row := range rows {
		cells[n] = row[:]
	}
	return p.table(cells)
}

// table prints rows with aligned columns.
func (p printer) table(rows [][]string) error {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for n, cell := range row {
			cells[n] = escape(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush() // a Builder takes everything
	return p.print(out.String())
}

func (p printer) print(text string) error {
	if _, err := io.WriteString(p.w, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

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
