// Package settings strictly decodes the configuration of a part, such as a sink or a
// source, with the same rules and errors for each.
package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delaybridge/delaybridge/core"
)

// Decode decodes raw, one JSON object or empty, into the struct that into points to. of
// names the part, such as "a Kafka sink". An unknown key, a value of another type, or text
// after the object is a *core.InvalidError, which names the field and shows no value,
// because it may be a secret.
func Decode(raw json.RawMessage, into any, of string) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return explain(err, into, of)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return core.Invalidf("config", "has something after its end")
	}
	return nil
}

func explain(err error, into any, of string) error {
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
		return invalid // of a type that decodes itself
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return core.Invalidf(cmp.Or(withoutEmbedded(wrong.Field), "config"), "must be a %s", kindOf(wrong.Type))
	}
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if name, quoteErr := strconv.Unquote(quoted); ok && quoteErr == nil {
		hint := ""
		if near := Nearest(name, keysOf(reflect.TypeOf(into).Elem())); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return core.Invalidf(core.Shorten(name, 64), "is not a setting of %s%s", of, hint)
	}
	return core.Invalidf("config", "is not a JSON object")
}

// withoutEmbedded leaves out of a field's path the types of embedded structs: they begin
// with a capital letter, and keys do not.
func withoutEmbedded(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), func(name string) bool {
		return name != "" && name[0] >= 'A' && name[0] <= 'Z'
	}), ".")
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "group of settings"
	default:
		return "whole number"
	}
}

// keysOf are the names of the fields of a struct, those of embedded ones and those of
// groups among them, as the error of encoding/json names an unknown key without its place.
func keysOf(t reflect.Type) (keys []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if name != "" && name != "-" {
			keys = append(keys, name)
		}
		if inner.Kind() == reflect.Struct {
			keys = append(keys, keysOf(inner)...)
		}
	}
	return keys
}

// Duration is a duration setting: Text as written, empty for Standard.
type Duration struct {
	Field, Text        string
	Standard, Min, Max time.Duration
	To                 *time.Duration
}

// Durations parses each into its To. It returns a *core.InvalidError for the first that
// is not a duration from Min to Max.
func Durations(all ...Duration) error {
	for _, d := range all {
		*d.To = d.Standard
		if d.Text == "" {
			continue
		}
		parsed, err := core.ParseDuration(d.Text)
		if err != nil {
			return core.Invalidf(d.Field, "is not a duration such as 5s")
		}
		if parsed < d.Min || parsed > d.Max {
			return core.Invalidf(d.Field, "must be %s to %s", d.Min, d.Max)
		}
		*d.To = parsed
	}
	return nil
}

// Int is a number setting: Given as written, nil for Standard.
type Int struct {
	Field              string
	Given              *int
	Standard, Min, Max int
	To                 *int
}

// Ints stores each in its To. It returns a *core.InvalidError for the first that is not
// from Min to Max.
func Ints(all ...Int) error {
	for _, n := range all {
		*n.To = n.Standard
		if n.Given != nil {
			*n.To = *n.Given
		}
		if *n.To < n.Min || *n.To > n.Max {
			return core.Invalidf(n.Field, "must be %d to %d", n.Min, n.Max)
		}
	}
	return nil
}
