package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printer writes answers for people or for programs. Whatever a message holds,
// it comes out as printable text.
type printer struct {
	w        io.Writer
	format   string             // empty is a table
	template *template.Template // of formatTemplate
	width    int                // of the terminal; 0 if it is none
}

const (
	formatTable    = "table"
	formatJSON     = "json"
	formatLines    = "jsonl" // each object in one line
	formatTemplate = "template"
)

func newPrinter(w io.Writer, output string) (printer, error) {
	p := printer{w: w, format: output, width: terminalWidth(w)}
	switch format, text, given := strings.Cut(output, "="); {
	case given && format == formatTemplate:
		parsed, err := template.New(format).Parse(text)
		if err != nil {
			return printer{}, usageError("--output " + err.Error())
		}
		p.format, p.template = format, parsed
	case !slices.Contains([]string{formatTable, formatJSON, formatLines}, output):
		return printer{}, usageError("--output must be table, json, jsonl or template=TEXT, such as template='{{.id}}'")
	}
	return p, nil
}

func (p printer) forPeople() bool { return p.format == "" || p.format == formatTable }

// object prints the JSON of an answer in the format for programs.
func (p printer) object(text json.RawMessage) error {
	var out bytes.Buffer
	var err error
	switch p.format {
	case formatTemplate:
		return p.execute(text)
	case formatLines:
		err = json.Compact(&out, text)
	default:
		err = json.Indent(&out, text, "", "  ")
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return p.print(escapeJSON(out.Bytes()) + "\n")
}

// execute prints a JSON object by the template. Numbers stay as they are written.
func (p printer) execute(text json.RawMessage) error {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var out strings.Builder
	if err := p.template.Execute(&out, printable(v)); err != nil {
		return fmt.Errorf("--output %w", err)
	}
	return p.print(out.String() + "\n")
}

// printable escapes the texts within a decoded JSON value.
func printable(v any) any {
	switch v := v.(type) {
	case string:
		return escape(v)
	case []any:
		for n, one := range v {
			v[n] = printable(one)
		}
	case map[string]any:
		escaped := make(map[string]any, len(v))
		for name, one := range v {
			escaped[escape(name)] = printable(one)
		}
		return escaped
	}
	return v
}

// value prints v in the format for programs.
func (p printer) value(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return p.object(text)
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
