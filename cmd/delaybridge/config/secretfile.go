package config

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
)

// fileSuffix makes the key of a secret one that names a file which holds it.
const fileSuffix = "_file"

// secretField returns the field of a secret that name says to be in a file.
func secretField(fields map[string]field, name string) (field, bool) {
	base, ok := strings.CutSuffix(name, fileSuffix)
	return fields[base], ok && fields[base].secret
}

// secretLists are the secrets of sinks and sources that are lists.
const secretLists = "urls"

var secretOfPart = regexp.MustCompile(`^((.*_)?(password|secret|token|secret_key|access_key|private_key)|url|` + secretLists + `)$`)

// ownOfPlugin is what a plugin decodes by itself, so that each key there is its own.
var ownOfPlugin = regexp.MustCompile(`^sinks\..*\.config\.(config|env|args)([.\[]|$)`)

// secretBase returns the key that name says to be in a file, for what a sink or source
// decodes; empty if it does not.
func secretBase(path, name string) string {
	base, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || !secretOfPart.MatchString(base) || ownOfPlugin.MatchString(path) {
		return ""
	}
	return base
}

// checkOnce finds a secret that is both written and in a file.
func (d *decoder) checkOnce(path string, e entry) {
	base := strings.TrimSuffix(e.name, fileSuffix)
	d.shown[e.key] = true
	if d.has(join(path, base)) {
		d.failAt(e.key, join(path, e.name), "conflict", "can't be used together with %s", base)
	}
}

// secretLines reads the file that e names. Without a fault, there is at least one line,
// and none is empty.
func (d *decoder) secretLines(path string, e entry) []string {
	raw, _, ok := d.scalarText(path, "path", e.value)
	if !ok {
		return nil
	}
	at := e.value.GetToken()
	name, err := d.expand(raw)
	if err != nil {
		d.badValue(at, path, "", err)
		return nil
	}
	text, mode, err := d.options.ReadFile(name.text)
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err // the name may be the secret itself, by mistake
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })
	switch {
	case err != nil:
		d.failAt(at, path, "bad-file", "names a file that can't be read: %s", err)
	case isOpen(mode):
		d.failAt(at, path, "readable-secret", "names a file that is readable by all users; chmod o-r, or for a Kubernetes secret defaultMode: 0400")
	case len(lines) == 0:
		d.failAt(at, path, "bad-file", "names a file that is empty")
	default:
		d.files = append(d.files, name.text)
		d.values = append(d.values, lines...)
		return lines
	}
	return nil
}

// oneSecret is secretLines for a secret that is no list.
func (d *decoder) oneSecret(path string, e entry) (string, bool) {
	lines := d.secretLines(path, e)
	if len(lines) > 1 {
		d.failAt(e.value.GetToken(), path, "bad-file", "names a file with %d lines; it must hold one", len(lines))
	}
	if len(lines) != 1 {
		return "", false
	}
	return lines[0], true
}

// secretInFile decodes a secret of the table that is in a file.
func (d *decoder) secretInFile(path string, f field, e entry) {
	key, at := join(path, f.name), join(path, e.name)
	d.checkOnce(path, e)
	if f.add != nil {
		for n, line := range d.secretLines(at, e) {
			d.places[item(key, n)] = d.places[at]
			d.badValue(e.value.GetToken(), at, mask+" ", f.add(line))
			d.record(item(key, n), f, line, true)
		}
		return
	}
	if text, ok := d.oneSecret(at, e); ok {
		d.badValue(e.value.GetToken(), at, mask+" ", f.set(text))
		d.record(key, f, text, true)
	}
}
