package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/delaybridge/delaybridge/core"
)

// binary is the file that is executed for a plugin.
//
// One that is not pinned is executed where it lies. One that is pinned is read
// once: what is hashed is also what is copied into a directory that only we can
// write, and the copy is executed, so that nobody can put another program in
// its place between the two. (The library's own check reads the file by name
// and then executes the name.) The copy keeps its name and has links to the
// original's neighbours beside it, so that a script finds its modules; the pin
// covers the one file only.
type binary struct {
	path   string // without symbolic links
	sha256 []byte // nil: not pinned
}

// findBinary checks the file at command. Every error is a *core.InvalidError.
func findBinary(command string, sum []byte) (binary, error) {
	if !filepath.IsAbs(command) {
		return binary{}, core.Invalidf("command", "must be an absolute path")
	}
	path, reasons := trusted(command)
	if len(reasons) == 0 {
		return binary{path, sum}, nil
	}
	if path != filepath.Clean(command) {
		reasons[0] = "leads to " + path + ", which " + reasons[0]
	}
	return binary{}, core.Invalidf("command", "%s", strings.Join(reasons, "; "))
}

// reasonOf leaves out what the field says already.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

const anyMayExecute = 0o111

// unfit is why a file can't be executed.
func unfit(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "is a directory"
	case !mode.IsRegular():
		return "is not a regular file"
	case mode.Perm()&anyMayExecute == 0:
		return "is not executable: chmod +x it"
	}
	return ""
}

// executable returns the path to execute; dir is private and lives as long as
// the process.
func (b binary) executable(dir string) (string, error) {
	if b.sha256 == nil {
		return b.path, nil
	}
	copied := filepath.Join(dir, filepath.Base(b.path))
	sum, err := copyExecutable(copied, b.path)
	if err != nil {
		return "", fmt.Errorf("copy the plugin: %w", err)
	}
	if !bytes.Equal(sum, b.sha256) {
		return "", core.Invalidf("sha256", "is not that of %s, which has %s: the program was not run", b.path, hex.EncodeToString(sum))
	}
	if err := linkNeighbours(dir, b.path); err != nil {
		return "", fmt.Errorf("copy the plugin: %w", err)
	}
	return copied, nil
}

// copyExecutable copies a file and returns the hash of what it copied.
func copyExecutable(to, from string) ([]byte, error) {
	source, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	// A process that is forked while the copy is open for writing would inherit
	// that for a moment, and the kernel refuses to execute such a file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	_, err = io.Copy(target, io.TeeReader(source, hash))
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	return hash.Sum(nil), err
}

// linkNeighbours puts links to what lies beside the original beside the copy.
func linkNeighbours(dir, original string) error {
	from := filepath.Dir(original)
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == filepath.Base(original) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
