package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/delaybridge/delaybridge/sinks/plugin"
)

// The templates, one folder a language. A name that ends in .tmpl, or has dot_
// for a leading dot, is one that tools would otherwise take for a file of this
// project; {{name}} and {{require}} are replaced.
//
//go:embed all:plugintemplates
var pluginTemplates embed.FS

const (
	pluginTemplateRoot = "plugintemplates"
	pluginPrefix       = "delaybridge-sink-"
	modulePath         = "github.com/delaybridge/delaybridge"
)

func pluginLanguages() []string { return []string{"go", "python", "node"} }

type newPlugin struct{ name, language, dir, checkout string }

func (a *app) pluginNewCommand() *cobra.Command {
	var f newPlugin
	cmd := &cobra.Command{
		Use:   "new NAME --lang go|python|node",
		Short: "Create the source of a new plugin",
		Long: `Create a complete plugin to start from: a sink that appends messages to files, with
its settings, error classes and tests, and files to build and verify it. Nothing is
downloaded. It is written to ./` + pluginPrefix + `NAME, or to --dir, which must be empty.

A plugin in Go needs the module ` + modulePath + `: the version
of this program, or a checkout if --delaybridge-dir names one or the command runs
inside one.`,
		Example: "  delaybridge plugin new mine --lang go\n  delaybridge plugin new mine --lang python --dir ./mine",
		Args:    oneArgument("the name of the plugin"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.language, "lang", "", "language: "+strings.Join(pluginLanguages(), ", "))
	flags.StringVar(&f.dir, "dir", "", "directory to create (default ./"+pluginPrefix+"NAME)")
	flags.StringVar(&f.checkout, "delaybridge-dir", "", "path of a delaybridge checkout to build a Go plugin against")
	cmd.RunE = a.runE(func(_ *cobra.Command, args []string) error {
		f.name = args[0]
		if err := f.check(); err != nil {
			return err
		}
		files, err := f.files()
		if err != nil {
			return err
		}
		if err := writeFiles(f.dir, files); err != nil {
			return err
		}
		return printer{w: a.stdout}.print(f.nextSteps())
	})
	return cmd
}

var pluginNameForm = regexp.MustCompile(`^[a-z](-?[a-z0-9]+)*$`)

const maxPluginName = 40

// check also fills in the directory.
func (f *newPlugin) check() error {
	switch {
	case strings.HasPrefix(f.name, pluginPrefix):
		return usageError("give the name without " + pluginPrefix + ", which is put before it: " + strings.TrimPrefix(f.name, pluginPrefix))
	case !pluginNameForm.MatchString(f.name) || len(f.name) > maxPluginName:
		return usageError(fmt.Sprintf("%q is no name for a plugin: it may hold 1 to %d of a-z 0-9 and single -, and begins with a letter", f.name, maxPluginName))
	case f.language == "":
		return usageError("give --lang: " + strings.Join(pluginLanguages(), ", "))
	case !slices.Contains(pluginLanguages(), f.language):
		return usageError(fmt.Sprintf("--lang %q is not known; known are %s", f.language, strings.Join(pluginLanguages(), ", ")))
	case f.checkout != "" && f.language != "go":
		return usageError("--delaybridge-dir is for --lang go")
	}
	if f.dir == "" {
		f.dir = pluginPrefix + f.name
	}
	entries, err := os.ReadDir(f.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look into the directory: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty; nothing was written", f.dir)
	}
	return nil
}

// files are the contents of the plugin's files by path.
func (f *newPlugin) files() (map[string]string, error) {
	files, require := map[string]string{}, ""
	if f.language == "go" {
		checkout, err := f.findCheckout()
		if err != nil {
			return nil, err
		}
		if require = requireRelease(buildVersion()); checkout != "" {
			if require, files["go.sum"], err = requireCheckout(checkout); err != nil {
				return nil, err
			}
		}
	}
	if path, needed := protocolPaths()[f.language]; needed {
		files[path] = plugin.Protocol()
	}
	fill := strings.NewReplacer("{{name}}", f.name, "{{require}}\n", require)
	root := pluginTemplateRoot + "/" + f.language
	err := fs.WalkDir(pluginTemplates, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := pluginTemplates.ReadFile(path)
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
func (f *newPlugin) findCheckout() (string, error) {
	if f.checkout != "" {
		dir, err := filepath.Abs(f.checkout)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", f.checkout, err)
		}
		if !isCheckout(dir) {
			return "", usageError(fmt.Sprintf("--delaybridge-dir %s is no checkout of %s", f.checkout, modulePath))
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
	return err == nil && strings.TrimSpace(first) == "module "+modulePath
}

var releaseForm = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// requireRelease is what go.mod needs; without a release, `go mod tidy` finds
// the newest there is.
func requireRelease(version string) string {
	if !releaseForm.MatchString(version) {
		return ""
	}
	return "\nrequire " + modulePath + " " + version + "\n"
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
		modulePath, modulePath, quoteModPath(dir))
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

func (f *newPlugin) nextSteps() string {
	return fmt.Sprintf("%s: a sink in %s that appends messages to files\n\n  cd %s\n  make            # builds and tests it\n"+
		"  make verify     # holds it to what a sink promises\n  make dev        # tries it out\n\nREADME.md says which files are yours.\n",
		escape(f.dir), map[string]string{"go": "Go", "python": "Python", "node": "JavaScript"}[f.language], escape(f.dir))
}
