//go:build unix

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// trixie is the release of Debian after the one that CI runs on. It brings Redis
// 8.0, Valkey 8.1 and RabbitMQ 4.0, which start from a directory of their own, with
// its C library.
const trixie = "trixie"

// trixiePackages are fetched with all that they need.
const trixiePackages = "redis-server valkey-server rabbitmq-server"

var (
	errNotDebian = errors.New("this machine's system is not Debian")
	errNoMirror  = errors.New("apt knows no mirror of Debian")
)

// Redis80 is the program of a newer Redis, for RedisOptions.Program.
func Redis80(t TB) string { t.Helper(); return newer(t, "usr/bin/redis-server") }

// newer is a file of trixie, by its path there. It is fetched at the first use into
// a cache that outlives the test.
func newer(t TB, path string) string {
	t.Helper()
	slow(t)
	root, err := fetchTrixie()
	switch {
	case errors.Is(err, errNotDebian):
		t.Skipf("needs a server out of Debian's %s: %v", trixie, err) // nothing can be installed for it
	case err != nil:
		unavailable(t, "fetch Debian's %s: %v", trixie, err)
	}
	return filepath.Join(root, path)
}

func fetchTrixie() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	name := trixie + "-1" // another number where what is made of the packages changes
	return cached(name, func(dir string) (string, error) {
		if err := download(dir); err != nil {
			return "", err
		}
		root := filepath.Join(dir, "root")
		if err := extract(dir, root); err != nil {
			return "", err
		}
		return root, adapt(root, filepath.Join(cache, name))
	})
}

// download puts the packages into dir/archives, from the first of the machine's
// mirrors that has them. apt's own state stays as it is.
func download(dir string) error {
	mirrors, err := mirrors()
	if err != nil {
		return err
	}
	for _, sub := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	// To an empty status nothing is installed, so that apt takes all that is needed.
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o600); err != nil {
		return err
	}
	sources := filepath.Join(dir, "sources.list")
	options := []string{"-q", "-y", "-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::State::status=" + filepath.Join(dir, "status"),
		"-o", "Dir::Cache=" + dir, "-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root",
		"-o", "APT::Install-Recommends=false", "-o", "Acquire::Retries=3"}
	install := slices.Concat(options, []string{"--download-only", "install"}, strings.Fields(trixiePackages))
	for _, mirror := range mirrors {
		if err = os.WriteFile(sources, []byte("deb "+mirror+" "+trixie+" main\n"), 0o600); err != nil {
			return err
		}
		if err = run("apt-get", append(options, "update")...); err == nil {
			return run("apt-get", install...)
		}
	}
	return err
}

// mirrors are what apt is set up with on this machine for the main part of a release.
func mirrors() ([]string, error) {
	if release, _ := os.ReadFile("/etc/os-release"); !bytes.Contains(release, []byte("\nID=debian\n")) {
		return nil, errNotDebian
	}
	out, err := exec.Command("apt-get", "indextargets", "--no-release-info",
		"--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoMirror, err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 3 && !strings.Contains(f[1], "-") && f[2] == "main" && !slices.Contains(found, f[0]) {
			found = append(found, f[0])
		}
	}
	if found == nil {
		return nil, errNoMirror
	}
	return found, nil
}

func extract(dir, root string) error {
	packages, err := filepath.Glob(filepath.Join(dir, "archives", "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := run("dpkg", "-x", file, root); err != nil {
			return err
		}
	}
	return nil
}

// adapt has the programs below root, which will lie in home, run with the C library
// beside them, as the machine's is too old for them. A variable of the environment
// would do so for what they start, too, such as the machine's own shell.
func adapt(root, home string) error {
	loaders, err := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux*.so.*"))
	if err != nil || len(loaders) == 0 {
		return fmt.Errorf("no program loader among the packages: %w", errors.Join(err, fs.ErrNotExist))
	}
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		return fmt.Errorf("%d directories of libraries among the packages, want one", len(libraries))
	}
	moved := func(path string) string { return home + strings.TrimPrefix(path, root) }
	start := fmt.Sprintf("exec '%s' --library-path '%s' --argv0 \"$0\"", moved(loaders[0]), moved(libraries[0]))
	var programs []string
	for _, pattern := range []string{"usr/bin/*-check-rdb", "usr/lib/erlang/bin/*", "usr/lib/erlang/erts-*/bin/*",
		"usr/lib/erlang/lib/*/priv/bin/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		programs = append(programs, found...)
	}
	for _, program := range programs {
		if err := wrap(program, moved(program), start); err != nil {
			return err
		}
	}
	// Debian's own names /usr/lib/erlang.
	erlang := home + "/usr/lib/erlang"
	erts, err := filepath.Glob(filepath.Join(root, "usr/lib/erlang/erts-*/bin"))
	if err != nil || len(erts) != 1 {
		return fmt.Errorf("%d Erlangs among the packages, want one", len(erts))
	}
	erl := "export ROOTDIR='" + erlang + "' BINDIR='" + moved(erts[0]) + "' EMU=beam PROGNAME=erl\nexec \"$BINDIR/erlexec\" \"$@\"\n"
	return script(filepath.Join(root, "usr/lib/erlang/bin/erl"), erl)
}

// wrap puts a script in the place of a program. Links and scripts stay.
func wrap(program, home, start string) error {
	info, err := os.Lstat(program)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	content, err := os.ReadFile(program)
	if err != nil || !bytes.HasPrefix(content, []byte("\x7fELF")) {
		return err
	}
	const real = ".real"
	if err := os.Rename(program, program+real); err != nil {
		return err
	}
	return script(program, start+" '"+home+real+"' \"$@\"\n")
}

func script(path, text string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700)
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}
