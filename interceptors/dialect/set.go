package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/delaybridge/delaybridge/core"
)

// Header is one header as a listener or source received it.
type Header struct {
	Name string
	// Value is text as []byte, *[]byte (which needs no allocation) or string; a number
	// as any of Go's integers and floats; a time.Time; a bool; nil for null; or any
	// other type of the protocol, which is refused in a header about scheduling.
	Value any
}

// Set is a set of enabled dialects. It is immutable and safe for concurrent use.
type Set struct {
	names  []string
	rows   map[string]*row // by folded name
	native bool
}

// Native is the dialect of delaybridge's own headers.
const Native = "native"

// New returns the Set of the dialects with these names; see the package documentation.
// An empty Set knows no header. New returns a *core.InvalidError with the Field
// "dialects" for an unknown or repeated name.
func New(names ...string) (*Set, error) {
	s := &Set{names: slices.Clone(names), rows: make(map[string]*row)}
	for n, name := range names {
		if slices.Contains(names[:n], name) {
			return nil, core.Invalidf("dialects", "have %s twice", quote(name))
		}
		known := false
		for i := range table {
			if r := &table[i]; r.dialect == name {
				known = true
				s.rows[fold(r.header)] = r
			}
		}
		if !known {
			return nil, core.Invalidf("dialects", "have %s, which is not known; known are %s", quote(name), strings.Join(Names(), ", "))
		}
		s.native = s.native || name == Native
	}
	return s, nil
}

// Names returns the names of all dialects.
func Names() []string {
	var names []string
	for i := range table {
		if name := table[i].dialect; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Names returns the names of the dialects in the Set.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Knows reports whether a header of this name is about scheduling, so that Read uses
// it. To save work, a listener may omit Headers that Read does not know.
func (s *Set) Knows(name string) bool {
	return s.row(name) != nil || s.native && core.IsReservedHeader(name) || core.DeliveryHeader(name) != ""
}

// longestName is room for the folded name of every row.
const longestName = 40

// row returns what a header means, or nil.
func (s *Set) row(name string) *row {
	if len(name) > longestName {
		return nil
	}
	var folded [longestName]byte
	for i := range len(name) {
		folded[i] = foldByte(name[i])
	}
	return s.rows[string(folded[:len(name)])] // makes no string
}

// fold brings a name into the form in which names are compared.
func fold(name string) string {
	folded := []byte(name)
	for i, c := range folded {
		folded[i] = foldByte(c)
	}
	return string(folded)
}

func foldByte(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case c == '_':
		return '-'
	}
	return c
}

// quote shows what a stranger wrote.
func quote(text string) string { return strconv.QuoteToASCII(core.Shorten(text, 48)) }
