package config

import (
	"regexp"
	"strings"
)

// expanded is a value in which the references to variables are replaced.
type expanded struct {
	text string
	// fromEnv says that it refers to a variable, so that it is not shown.
	fromEnv bool
	// absent says that it is empty because ${VAR:-} allows for it: then the key
	// counts as left out.
	absent bool
}

var variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand replaces ${VAR}, ${VAR:-default} and $$. Any other $ stands for itself.
func expand(s string, lookup func(string) (string, bool)) (expanded, error) {
	var out strings.Builder
	var e expanded
	optional := false
	for s != "" {
		head, tail, found := strings.Cut(s, "$")
		out.WriteString(head)
		if !found {
			break
		}
		s = "$" + tail
		switch {
		case strings.HasPrefix(s, "$$"):
			out.WriteByte('$')
			s = s[2:]
		case strings.HasPrefix(s, "${"):
			m := variable.FindStringSubmatch(s)
			if m == nil {
				return e, &valueError{code: "bad-reference", text: "has a reference that is not ${VAR} or ${VAR:-default}; write $$ for a $"}
			}
			value, err := resolve(m[1], m[2] != "", m[3], lookup)
			if err != nil {
				return e, err
			}
			out.WriteString(value)
			e.fromEnv, optional = true, optional || m[2] == ":-"
			s = s[len(m[0]):]
		default:
			out.WriteByte('$')
			s = s[1:]
		}
	}
	e.text = out.String()
	e.absent = e.text == "" && optional
	return e, nil
}

func resolve(name string, hasDefault bool, def string, lookup func(string) (string, bool)) (string, error) {
	value, ok := lookup(name)
	switch {
	case value != "":
		return value, nil
	case hasDefault:
		return def, nil
	case !ok:
		return "", &valueError{code: "unset-variable", text: "refers to " + name + ", which is not set; set it, or write ${" + name + ":-default}"}
	}
	return "", nil
}
