package config

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// source is the file as it was read: where every key stands, and what of it may
// be shown. Nothing is, unless its form or its place says that it is no secret:
// people forget quotes, colons and line ends.
type source struct {
	name   string
	lines  []string
	tokens token.Tokens
	places map[string]place
	known  map[string]bool       // names of settings, and common values
	shown  map[*token.Token]bool // what else may be shown
	// values are what variables were replaced by, which is never shown.
	values []string
	// exposed has the values that look like secrets and are written out.
	exposed []exposure
}

// place is where a key and its value stand.
type place struct{ key, value *token.Token }

type exposure struct {
	path string
	at   *token.Token
}

func newSource(name, text string, table []field) *source {
	s := &source{name: name, lines: strings.Split(text, "\n"),
		places: map[string]place{}, known: map[string]bool{}, shown: map[*token.Token]bool{}}
	for name := range strings.FieldsSeq(wordsOfParts) {
		s.known[name] = true
	}
	s.learn(table)
	return s
}

// learn notes the names of the table.
func (s *source) learn(table []field) {
	for _, f := range table {
		s.known[f.name] = true
		s.learn(f.fields)
		if f.each != nil {
			s.learn(f.each("x"))
		}
	}
}

// position returns where path, or else the closest section around it, stands.
func (s *source) position(path string) (line, column int) {
	for path != "" {
		if p, ok := s.places[path]; ok {
			at := p.key
			if p.value != nil {
				at = p.value
			}
			return at.Position.Line, at.Position.Column
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 1, 1
}

// start returns the first token of node.
func start(node ast.Node) *token.Token {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return start(n.Values[0])
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken()
	}
	return node.GetToken()
}

// maxExcerpt is the longest line, in bytes, that is shown.
const maxExcerpt = 500

// excerpt returns the line with all but what is known to be harmless masked, and
// how many characters of it stand before column.
func (s *source) excerpt(line, column int) (text string, caret int) {
	if line > len(s.lines) || len(s.lines[line-1]) > maxExcerpt {
		return "", 0
	}
	runes := []rune(s.lines[line-1])
	var out strings.Builder
	end := 0 // of what has been written
	for _, t := range s.tokens {
		from := t.Position.Column - 1
		if t.Position.Line != line || from < end || from > len(runes) {
			continue
		}
		out.WriteString(blank(string(runes[end:from])))
		if column-1 == from {
			caret = len([]rune(out.String()))
		}
		if t.Type == token.CommentType {
			return printable(strings.TrimRight(out.String(), " \t")), caret
		}
		end = min(len(runes), from+width(t))
		out.WriteString(s.masked(t, string(runes[from:end])))
	}
	if end == 0 {
		return "", 0 // inside a text of several lines
	}
	return printable(out.String()), caret
}

// width is how many characters t takes on its line.
func width(t *token.Token) int {
	first, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	return len([]rune(strings.TrimRight(first, " \r")))
}

const mask = "***"

// blank is what stands between two tokens: white space, or else the end of a text
// of several lines.
func blank(text string) string {
	if strings.TrimSpace(text) != "" {
		return mask
	}
	return text
}

// signs are what the structure of YAML is written in.
var signs = regexp.MustCompile(`^([-:,?&*!|>{}\[\]]|[|>][-+]?[1-9]?|<<|---|\.\.\.)?$`)

// masked returns piece, which stands for t, or what may be shown of it. What YAML
// takes for a tag, an anchor or the head of a block may be the secret that
// somebody forgot to quote.
func (s *source) masked(t *token.Token, piece string) string {
	switch {
	case s.shown[t], isKey(t) && s.known[t.Value]:
		return piece
	case signs.MatchString(piece):
		return piece
	}
	return mask
}

// isKey takes the second word of "password: hunter2: x" for a value.
func isKey(t *token.Token) bool {
	if t.Next == nil || t.Next.Type != token.MappingValueType {
		return false
	}
	return t.Prev == nil || t.Prev.Type != token.MappingValueType || t.Prev.Position.Line != t.Position.Line
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
