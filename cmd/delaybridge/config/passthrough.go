package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// object turns a section into JSON, for a part that decodes it by itself. A
// value with a reference to a variable is always text there: what a variable
// holds must not change the type.
func (d *decoder) object(path string, node ast.Node) json.RawMessage {
	if !isSection(node) {
		d.wrongKind(path, "section", node)
		return nil
	}
	if _, empty := node.(*ast.NullNode); empty {
		return json.RawMessage("{}")
	}
	var out bytes.Buffer
	d.json(&out, path, node)
	return out.Bytes()
}

func (d *decoder) json(out *bytes.Buffer, path string, node ast.Node) {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		out.WriteByte('{')
		for i, e := range d.entries(path, node) {
			if settings.Nearest(e.name, strings.Fields(wordsOfParts)) != "" {
				d.shown[e.key] = true // a slip
			}
			writeComma(out, i)
			if base := secretBase(path, e.name); base != "" {
				d.jsonSecret(out, path, base, e)
				continue
			}
			writeText(out, e.name)
			out.WriteByte(':')
			d.json(out, join(path, e.name), e.value)
		}
		out.WriteByte('}')
	case *ast.SequenceNode:
		out.WriteByte('[')
		for i, v := range n.Values {
			writeComma(out, i)
			item := fmt.Sprintf("%s[%d]", path, i)
			d.places[item] = place{key: start(v)}
			d.json(out, item, v)
		}
		out.WriteByte(']')
	case *ast.NullNode:
		out.WriteString("null")
	default:
		d.jsonScalar(out, path, node)
	}
}

func (d *decoder) jsonScalar(out *bytes.Buffer, path string, node ast.Node) {
	raw, _, ok := d.scalarText(path, "value", node)
	if !ok {
		return
	}
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		d.jsonText(out, path, raw, node.GetToken())
	case *ast.BoolNode:
		value, err := parseBool(raw)
		d.badValue(node.GetToken(), path, strconv.Quote(raw)+" ", err) // YAML's True and TRUE
		fmt.Fprint(out, value)
		d.recordOfPart(path, raw, raw, false)
	default:
		if _, err := parseDecimal(raw); err != nil {
			d.failAt(node.GetToken(), path, "wrong-type", "is not a decimal number; write it in quotes if it is text")
		}
		out.WriteString(raw)
		d.recordOfPart(path, raw, raw, false)
	}
}

// jsonSecret writes a secret that is in a file under its own key.
func (d *decoder) jsonSecret(out *bytes.Buffer, path, base string, e entry) {
	key, at := join(path, base), join(path, e.name)
	d.checkOnce(path, e)
	d.places[key] = d.places[at]
	writeText(out, base)
	out.WriteByte(':')
	if base != secretLists {
		text, _ := d.oneSecret(at, e)
		writeText(out, text)
		d.recordOfPart(key, "", text, true)
		return
	}
	out.WriteByte('[')
	for n, line := range d.secretLines(at, e) {
		writeComma(out, n)
		writeText(out, line)
		d.places[item(key, n)] = d.places[at]
		d.recordOfPart(item(key, n), "", line, true)
	}
	out.WriteByte(']')
}

func (d *decoder) jsonText(out *bytes.Buffer, path, raw string, at *token.Token) {
	if secretKey.MatchString(path) || hasUserinfo(raw) {
		d.note(path, at, raw, true)
	}
	value, err := d.expand(raw)
	d.badValue(at, path, "", err)
	writeText(out, value.text)
	d.recordOfPart(path, raw, value.text, value.fromEnv)
}

// secretKey finds what probably is a secret in a section without a table.
var secretKey = regexp.MustCompile(`(?i)(passw|secret|token|credential|private_key|access_key)[a-z_0-9]*$`)

func writeComma(out *bytes.Buffer, n int) {
	if n > 0 {
		out.WriteByte(',')
	}
}

func writeText(out *bytes.Buffer, s string) {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	out.Write(quoted)
}

// faultsOf gives what a part said about its section the place in the file.
func (s *source) faultsOf(section string, err error) []fault {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []fault
		for _, one := range all.Unwrap() {
			faults = append(faults, s.faultsOf(section, one)...)
		}
		return faults
	}
	path, text := section, err.Error()
	if invalid, ok := errors.AsType[*core.InvalidError](err); ok {
		text = invalid.Reason
		if invalid.Field != "" && invalid.Field != "config" {
			path = join(section, invalid.Field)
		}
	}
	line, column := s.position(path)
	return []fault{{line, column, "refused", inPath(path, text)}}
}
