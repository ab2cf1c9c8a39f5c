package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/delaybridge/delaybridge/core"
	"github.com/delaybridge/delaybridge/internal/settings"
)

// Decode reads a configuration from the text of the named file. The error is
// Faults. Of other files it reads those that secrets are in; see Load for the rest.
func Decode(name string, text []byte, options Options) (*Config, error) {
	clean := strings.ReplaceAll(strings.TrimPrefix(string(text), "\uFEFF"), "\r\n", "\n")
	hash := sha256.Sum256([]byte(clean))
	c := &Config{Hash: hex.EncodeToString(hash[:6]), source: newSource(name, clean, new(Config).fields(options))}
	d := decoder{source: c.source, options: options.withDefaults()}
	body, f := c.source.parse(clean)
	if f != nil {
		return nil, c.source.render([]fault{*f})
	}
	d.section("", c.fields(d.options), body)
	for _, s := range c.sinks {
		c.Sinks = append(c.Sinks, s.inherit(c))
	}
	for _, i := range c.sources {
		if i.Config == nil {
			i.Config = json.RawMessage("{}")
		}
		c.Sources = append(c.Sources, *i)
	}
	d.check(c)
	if err := c.source.render(d.faults); err != nil {
		return nil, err
	}
	c.settings, c.files = d.settings, d.files
	return c, nil
}

// decoder walks the file along the table and gathers what is wrong.
type decoder struct {
	*source
	options Options
	faults  []fault
	broken  []string // the paths that have faults

	settings []Setting
	files    []string // that secrets are in
}

func (d *decoder) failAt(at *token.Token, path, code, format string, args ...any) {
	d.faults = append(d.faults, fault{at.Position.Line, at.Position.Column, code, inPath(path, fmt.Sprintf(format, args...))})
	d.broken = append(d.broken, path)
}

// isBroken reports whether path or anything in it has a fault, so that what
// follows from it need not be said.
func (d *decoder) isBroken(path string) bool {
	return slices.ContainsFunc(d.broken, func(b string) bool {
		rest, ok := strings.CutPrefix(b, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// fail is failAt where path, or what is closest to it, stands.
func (d *decoder) fail(path, code, format string, args ...any) {
	line, column := d.position(path)
	d.faults = append(d.faults, fault{line, column, code, inPath(path, fmt.Sprintf(format, args...))})
}

func inPath(path, text string) string {
	if path == "" {
		return text
	}
	return path + ": " + text
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// entry is one key of a section.
type entry struct {
	name  string
	key   *token.Token
	value ast.Node
}

// section decodes the keys of node, which is nil if there is no such section,
// and fills in the others.
func (d *decoder) section(path string, fields []field, node ast.Node) {
	byName := make(map[string]field, len(fields))
	for _, f := range fields {
		byName[f.name] = f
	}
	absent := maps.Clone(byName)
	for _, e := range d.entries(path, node) {
		f, known := byName[e.name]
		if secret, ok := secretField(byName, e.name); !known && ok {
			delete(absent, secret.name)
			d.secretInFile(path, secret, e)
			continue
		}
		if !known {
			d.unknownKey(path, e, fields)
			continue
		}
		delete(absent, e.name)
		d.value(join(path, e.name), f, e)
	}
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		d.absent(path, absent[name], node)
	}
}

// entries returns what node holds as a section, without repeats.
func (d *decoder) entries(path string, node ast.Node) []entry {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.wrongKind(path, "section", node)
		return nil
	}
	entries, first := make([]entry, 0, len(values)), map[string]int{}
	for _, v := range values {
		key := v.Key.GetToken()
		e := entry{key.Value, key, v.Value}
		if (path == "sinks" || path == "sources") && isSection(v.Value) && core.CheckSinkName(key.Value) == nil {
			d.shown[key] = true // a name, which stands in logs and ids
		}
		if _, plain := v.Key.(ast.ScalarNode); !plain || key.Type == token.MergeKeyType {
			d.failAt(key, path, "unsupported", "only plain keys can be used here")
			continue
		}
		if line, repeated := first[key.Value]; repeated {
			d.failAt(key, path, "duplicate-key", "key %s is already in line %d", d.quotedName(e), line)
			continue
		}
		first[key.Value] = key.Position.Line
		d.places[join(path, key.Value)] = place{key: key, value: start(v.Value)}
		entries = append(entries, e)
	}
	return entries
}

func (d *decoder) unknownKey(path string, e entry, fields []field) {
	names := make([]string, len(fields))
	for n, f := range fields {
		names[n] = f.name
	}
	hint := settings.Nearest(e.name, names)
	if hint != "" {
		d.shown[e.key] = true // a slip of a name that is known
	}
	d.failAt(e.key, path, "unknown-key", "unknown key %s%s", d.quotedName(e), didYouMean(hint))
}

func didYouMean(hint string) string {
	if hint == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", hint)
}

// absent gives a key that is not there its default.
func (d *decoder) absent(path string, f field, node ast.Node) {
	switch {
	case f.required && isSection(node):
		d.fail(path, "missing", "has no %s", f.name)
	case f.fields != nil:
		d.section(join(path, f.name), f.fields, nil)
	case f.set != nil && f.def != "":
		f.set(f.def) // the test of the example holds that it is a good one
		d.record(join(path, f.name), f, f.def, false)
	}
}

func isSection(node ast.Node) bool {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.NullNode:
		return true
	}
	return false
}

func (d *decoder) value(path string, f field, e entry) {
	switch {
	case f.fields != nil:
		d.section(path, f.fields, e.value)
	case f.each != nil:
		for _, e := range d.entries(path, e.value) {
			if err := core.CheckSinkName(e.name); err != nil {
				d.failAt(e.key, path, "bad-name", "the name %s %s", d.quotedName(e), err.Reason)
				continue
			}
			d.section(join(path, e.name), f.each(e.name), e.value)
		}
	case f.raw != nil:
		f.raw(d.object(path, e.value))
	case f.add != nil:
		d.list(path, f, e.value)
	default:
		d.scalar(path, f, e.value, f.set)
	}
}

func (d *decoder) list(path string, f field, node ast.Node) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrongKind(path, "list", node)
		return
	}
	for n, v := range list.Values {
		item := fmt.Sprintf("%s[%d]", path, n)
		d.places[item] = place{key: start(v)}
		f.kind = "text"
		d.scalar(item, f, v, f.add)
	}
}

// scalar expands a value and hands it to set.
func (d *decoder) scalar(path string, f field, node ast.Node, set func(string) error) {
	raw, quoted, ok := d.scalarText(path, f.kind, node)
	if !ok {
		return
	}
	at := node.GetToken()
	secret := f.secret || hasUserinfo(raw)
	d.note(path, at, raw, secret)
	value, err := d.expand(raw)
	switch {
	case err != nil:
		d.badValue(at, path, "", err)
	case value.absent:
		d.absent(parent(path), f, nil)
	case value.text == "":
		d.failAt(at, path, "no-value", "is empty; leave it out, or write ${VAR:-} where it may be empty")
	case quoted && f.bare && !value.fromEnv:
		d.failAt(at, path, "wrong-type", "is text; write it without quotes to make it a %s", f.kind)
	default:
		err := set(value.text)
		d.record(path, f, value.text, true)
		if !secret && !value.fromEnv && (hintOf(err) != "" || slices.Contains(f.known, value.text)) {
			d.shown[at] = true // one of the values that are known, or a slip of one
		}
		shown := mask + " "
		if d.shown[at] && !value.fromEnv {
			shown = strconv.Quote(value.text) + " "
		}
		d.badValue(at, path, shown, err)
	}
}

// expand is expand with the variables that there are; what they hold is not shown.
func (d *decoder) expand(raw string) (expanded, error) {
	value, err := expand(raw, d.options.LookupEnv)
	if value.fromEnv {
		d.values = append(d.values, value.text)
	}
	return value, err
}

func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// note remembers whether a value may be shown, and whether it is a secret that
// stands in the file itself.
func (d *decoder) note(path string, at *token.Token, raw string, secret bool) {
	switch {
	case !secret:
		d.shown[at] = harmless.MatchString(raw)
	case !strings.Contains(raw, "${") && !strings.HasPrefix(raw, hashPrefix) && !isPlainURL(raw):
		d.exposed = append(d.exposed, exposure{path, at})
	}
}

// isPlainURL reports whether s is a URL without a password.
func isPlainURL(s string) bool { return strings.Contains(s, "://") && !strings.Contains(s, "@") }

func (d *decoder) badValue(at *token.Token, path, shown string, err error) {
	if err == nil {
		return
	}
	code, hint := "bad-value", hintOf(err)
	if v, ok := errors.AsType[*valueError](err); ok {
		code = v.code
	}
	if strings.HasPrefix(shown, mask) {
		hint = "" // it would give away the value
	}
	d.failAt(at, path, code, "%s%s%s", shown, err, didYouMean(hint))
}

func hintOf(err error) string {
	if v, ok := errors.AsType[*valueError](err); ok {
		return v.hint
	}
	return ""
}

// scalarText returns the text of a scalar as it is written, and whether it is
// in quotes.
func (d *decoder) scalarText(path, kind string, node ast.Node) (text string, quoted, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, n.Token.Type != token.StringType, true
	case *ast.LiteralNode:
		return n.Value.Value, true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, true
	case *ast.NullNode:
		d.failAt(d.places[path].key, path, "no-value", "has no value; leave it out for the default")
	default:
		d.wrongKind(path, kind, node)
	}
	return "", false, false
}

// wrongKind says what node is and should have been.
func (d *decoder) wrongKind(path, want string, node ast.Node) {
	at := start(node)
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.failAt(at, path, "wrong-type", "is a section, must be a %s", want)
	case *ast.SequenceNode:
		d.failAt(at, path, "wrong-type", "is a list, must be a %s", want)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		d.failAt(at, path, "unsupported", "anchors, aliases and tags can't be used here")
	default:
		d.failAt(at, path, "wrong-type", "is a single value, must be a %s", want)
	}
}

// inherit fills in what the sink leaves to the sections above it.
func (s *Sink) inherit(c *Config) Sink {
	out := *s
	if !s.hasDedupeWindow {
		out.DedupeWindow = c.Store.DedupeWindow
	}
	if out.Config == nil {
		out.Config = []byte("{}")
	}
	out.Retry = inheritRetry(s.Retry, c.Retry)
	return out
}
