package kit

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// The templates, one folder a language. A name that ends in .tmpl, or has dot_
// for a leading dot, is one that tools would otherwise take for a file of this
// project; {{name}} and {{require}} are replaced.
//
//go:embed all:templates
var templates embed.FS

const (
	// Prefix is the prefix of the names of plugins' programs.
	Prefix = "delaybridge-sink-"
	// Module is the module that a plugin in Go imports.
	Module = "github.com/delaybridge/delaybridge"
)

// Languages returns the supported languages of a Project.
func Languages() []string { return []string{"go", "python", "node"} }

// Project is the source of a new plugin: a sink that appends messages to files.
type Project struct {
	Name     string // without Prefix
	Language string // one of Languages
	// Checkout is a directory with the source of Module, which a plugin in Go is built
	// against. The default is the one that contains the working directory, else the
	// release Version.
	Checkout string
	Version  string
}

var nameForm = regexp.MustCompile(`^[a-z](-?[a-z0-9]+)*$`)

const maxName = 40

// Check returns an error if the name or the checkout is invalid.
func (p Project) Check() error {
	switch {
	case strings.HasPrefix(p.Name, Prefix):
		return fmt.Errorf("give the name without %s, which is put before it: %s", Prefix, strings.TrimPrefix(p.Name, Prefix))
	case !nameForm.MatchString(p.Name) || len(p.Name) > maxName:
		return fmt.Errorf("%q is not a valid name: it must have 1 to %d of a-z 0-9 and single -, and begin with a letter", p.Name, maxName)
	case p.Checkout != "" && !isCheckout(p.Checkout):
		return fmt.Errorf("%s is not a checkout of %s", p.Checkout, Module)
	}
	return nil
}

// Create writes the files of p into dir, which must be empty and is created if needed.
func (p Project) Create(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the directory: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty; nothing was written", dir)
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	return writeFiles(dir, files)
}

// files are the contents of the plugin's files by path.
func (p Project) files() (map[string]string, error) {
	files, require := map[string]string{}, ""
	if p.Language == "go" {
		checkout, err := p.findCheckout()
		if err != nil {
			return nil, err
		}
		if require = requireRelease(p.Version); checkout != "" {
			if require, files["go.sum"], err = requireCheckout(checkout); err != nil {
				return nil, err
			}
		}
	}
	if path, needed := protocolPaths()[p.Language]; needed {
		files[path] = plugin.Protocol()
	}
	fill := strings.NewReplacer("{{name}}", p.Name, "{{require}}\n", require)
	root := "templates/" + p.Language
	err := fs.WalkDir(templates, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".tmpl"), "dot_", ".")
		files[name] = fill.Replace(string(text))
		return nil
	})
	return files, err
}

// protocolPaths are where the .proto file goes, by language. Go has its code from
// the module.
func protocolPaths() map[string]string {
	return map[string]string{"python": "plugin/sink.proto", "node": "sink.proto"}
}

// findCheckout returns the checkout to build against; empty: none.
func (p Project) findCheckout() (string, error) {
	if p.Checkout != "" {
		dir, err := filepath.Abs(p.Checkout)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", p.Checkout, err)
		}
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if isCheckout(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", nil
		}
	}
}

func isCheckout(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	first, _, _ := strings.Cut(string(text), "\n")
	return err == nil && strings.TrimSpace(first) == "module "+Module
}

var releaseForm = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// requireRelease is what go.mod needs; without a release, `go mod tidy` finds
// the newest there is.
func requireRelease(version string) string {
	if !releaseForm.MatchString(version) {
		return ""
	}
	return "\nrequire " + Module + " " + version + "\n"
}

// requireCheckout is what go.mod and go.sum need so that nothing is to be
// fetched that has not been fetched for the checkout.
func requireCheckout(dir string) (require, sums string, err error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("read the checkout: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return "", "", fmt.Errorf("read the checkout: %w", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\nrequire %s v0.0.0\n\n// A checkout; without this line, and with a version above, it is a release.\nreplace %s => %s\n",
		Module, Module, quoteModPath(dir))
	out.WriteString("\n// What the checkout needs; go mod tidy leaves of it what this plugin needs.\nrequire (\n")
	inside := false
	for line := range strings.Lines(string(mod)) {
		switch line = strings.TrimRight(line, "\r\n"); {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && strings.TrimSpace(line) != "":
			fmt.Fprintf(&out, "%s // indirect\n", strings.TrimSuffix(line, " // indirect"))
		}
	}
	out.WriteString(")\n")
	return out.String(), string(sum), nil
}

// quoteModPath quotes a path that go.mod would take for several words.
func quoteModPath(path string) string {
	if strings.ContainsAny(path, " \t\"'`(),") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// writeFiles makes dir as needed. What begins with #! can be run.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
	}
	return nil
}
