package config

import (
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// source is the file as it was read: where every key stands, and which values
// may be shown.
type source struct {
	name   string
	lines  []string
	tokens token.Tokens
	places map[string]place
	shown  map[*token.Token]bool // values of known keys that are no secrets
	// exposed has the values that look like secrets and are written out.
	exposed []exposure
}

// place is where a key and its value stand.
type place struct{ key, value *token.Token }

type exposure struct {
	path string
	at   *token.Token
}

func newSource(name, text string) *source {
	return &source{name: name, lines: strings.Split(text, "\n"),
		places: map[string]place{}, shown: map[*token.Token]bool{}}
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

// excerpt returns the line with all but known and harmless values masked, and
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
		out.WriteString(string(runes[end:from]))
		if column-1 == from {
			caret = len([]rune(out.String()))
		}
		if t.Type == token.CommentType {
			return printable(strings.TrimRight(out.String(), " \t")), caret
		}
		end = min(len(runes), from+width(t))
		if s.isHidden(t) {
			out.WriteString("***")
			continue
		}
		out.WriteString(string(runes[from:end]))
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

// isHidden tells whether t is a value that may be a secret. Keys are not.
func (s *source) isHidden(t *token.Token) bool {
	switch {
	case t.Type == token.InvalidType, t.Type == token.UnknownType:
		return true
	case isScalar(t):
		return !isKey(t) && !s.shown[t]
	}
	return false
}

// isKey takes the second word of "password: hunter2: x" for a value.
func isKey(t *token.Token) bool {
	if t.Next == nil || t.Next.Type != token.MappingValueType {
		return false
	}
	return t.Prev == nil || t.Prev.Type != token.MappingValueType || t.Prev.Position.Line != t.Position.Line
}

func isScalar(t *token.Token) bool {
	switch t.Type {
	case token.MappingValueType, token.MappingStartType, token.MappingEndType, token.MappingKeyType,
		token.SequenceEntryType, token.SequenceStartType, token.SequenceEndType, token.CollectEntryType,
		token.CommentType, token.LiteralType, token.FoldedType, token.MergeKeyType, token.AnchorType,
		token.AliasType, token.TagType, token.DocumentHeaderType, token.DocumentEndType:
		return false
	}
	return true
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
