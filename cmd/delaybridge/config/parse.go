package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser's work grows with the square of the nesting and of the keys of one
// section, so a small file could keep it busy for hours.
const (
	maxFileBytes = 1 << 20
	maxTokens    = 30_000
	maxNesting   = 32
	maxIndent    = 200
)

// parse returns the top section of text, nil if the file is empty.
func (s *source) parse(text string) (ast.Node, *fault) {
	if f := checkText(text); f != nil {
		return nil, f
	}
	tokens, f := tokenize(text)
	s.tokens = tokens
	if f == nil {
		f = s.checkShape()
	}
	if f != nil {
		return nil, f
	}
	file, err := parseTokens(tokens)
	if err != nil {
		return nil, s.syntaxFault(err)
	}
	switch {
	case len(file.Docs) > 1:
		at := file.Docs[1].GetToken()
		if at == nil {
			at = tokens[len(tokens)-1]
		}
		return nil, &fault{at.Position.Line, at.Position.Column, "unsupported", "the file has a second YAML document; there may be one only"}
	case len(file.Docs) == 0:
		return nil, nil
	}
	return file.Docs[0].Body, nil
}

// checkText refuses what is no text before it comes near the lexer.
func checkText(text string) *fault {
	if len(text) > maxFileBytes {
		return &fault{1, 1, "too-large", fmt.Sprintf("the file is larger than %d bytes", maxFileBytes)}
	}
	line, column := 1, 0
	for n, r := range text {
		column++
		if r == utf8.RuneError && !strings.HasPrefix(text[n:], "\uFFFD") {
			return &fault{line, column, "syntax", "the file is not UTF-8"}
		}
		if r == '\n' {
			line, column = line+1, 0
		} else if r != '\t' && unicode.IsControl(r) {
			return &fault{line, column, "syntax", fmt.Sprintf("control character U+%04X", r)}
		}
	}
	return nil
}

func tokenize(text string) (tokens token.Tokens, f *fault) {
	defer func() {
		if recover() != nil {
			f = &fault{1, 1, "syntax", "the file is not valid YAML"}
		}
	}()
	return lexer.Tokenize(text), nil
}

// checkShape bounds the work of the parser.
func (s *source) checkShape() *fault {
	depth := 0
	for _, t := range s.tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if depth <= 0 && t.Position.Column > maxIndent {
				return &fault{t.Position.Line, t.Position.Column, "too-deep", "nested too deeply"}
			}
		}
		if depth > maxNesting {
			return &fault{t.Position.Line, t.Position.Column, "too-deep", "nested too deeply"}
		}
	}
	if len(s.tokens) > maxTokens {
		return &fault{1, 1, "too-large", fmt.Sprintf("the file has more than %d words and signs", maxTokens)}
	}
	return nil
}

func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the file is not valid YAML")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

func (s *source) syntaxFault(err error) *fault {
	syntax, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || syntax.GetToken() == nil {
		return &fault{1, 1, "syntax", "the file is not valid YAML"}
	}
	at := syntax.GetToken().Position
	said := quoted.ReplaceAllString(printable(syntax.GetMessage()), mask)
	return &fault{at.Line, at.Column, "syntax", said + s.hint(at.Line)}
}

// quoted is what the parser quotes of the file.
var quoted = regexp.MustCompile(`".+"`)

// hint says what a syntax error in a line often comes from.
func (s *source) hint(line int) string {
	if line > len(s.lines) {
		return ""
	}
	text := s.lines[line-1]
	switch {
	case strings.HasPrefix(strings.TrimLeft(text, " "), "\t"):
		return "; indent with spaces, not with tabs"
	case strings.Contains(text, "${"):
		return `; within { } and [ ], write "${VAR}" in quotes`
	}
	return ""
}
