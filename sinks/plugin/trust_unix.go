//go:build unix

package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	othersMayWrite = 0o022
	maxLinks       = 40 // as in the kernel
)

// trusted follows path, which is absolute, and returns where it leads. The reasons are
// why that must not be executed; the first is about the file, if any is. Nobody but
// root and our own user may be able to put another program there: neither the file nor
// a directory or symbolic link on the way may be another user's, or be written by
// others. A directory with the sticky bit, like /tmp, may be, as in it only the owner of
// a file can replace that, and the owner is looked at; but not that of the program
// itself, as a script would load what others put beside it.
func trusted(path string) (string, []string) {
	w := walk{at: "/", left: parts(path)}
	if root, err := os.Lstat("/"); err == nil {
		w.inspect("/", root)
	}
	for len(w.left) > 0 {
		if fault := w.step(); fault != "" {
			return filepath.Join(append([]string{w.at}, w.left...)...), append([]string{fault}, w.faults...)
		}
	}
	slices.Reverse(w.faults) // the last is about the file
	return w.at, slices.Compact(w.faults)
}

// walk goes along a path, name by name.
type walk struct {
	at     string   // a directory, at the end the file; without symbolic links
	left   []string // names
	links  int
	open   bool // others can put files into at, though not replace ours
	faults []string
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}

// step goes to the next name. The fault is one that ends the way.
func (w *walk) step() (fault string) {
	next := filepath.Join(w.at, w.left[0])
	info, err := os.Lstat(next)
	switch {
	case err != nil:
		return "can't be used: " + reasonOf(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return w.follow(next, info)
	case len(w.left) == 1:
		fault = unfit(info)
	case !info.IsDir():
		fault = "can't be used: " + next + " is not a directory"
	}
	if fault != "" {
		return fault
	}
	if w.open && len(w.left) == 1 {
		w.faults = append(w.faults, "is in "+w.at+", where others can put files next to it: move it to a separate directory")
	}
	w.inspect(next, info)
	w.at, w.left = next, w.left[1:]
	return ""
}

// follow goes to where a symbolic link leads.
func (w *walk) follow(link string, info fs.FileInfo) (fault string) {
	target, err := os.Readlink(link)
	if w.links++; err != nil || w.links > maxLinks {
		return "can't be used: " + link + " has no target"
	}
	w.inspect(link, info)
	if filepath.IsAbs(target) {
		w.at, w.open = "/", false
	}
	w.left = append(parts(target), w.left[1:]...)
	return ""
}

// inspect notes how others could put another program in the place of ours.
func (w *walk) inspect(path string, info fs.FileInfo) {
	mode, prefix, chown := info.Mode(), "", "chown "
	switch {
	case mode.IsDir():
		prefix = "is below " + path + ", which "
	case mode&fs.ModeSymlink != 0:
		prefix, chown = "is found by the link "+path+", which ", "chown -h "
	}
	us := os.Geteuid()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != us {
		w.faults = append(w.faults, fmt.Sprintf("%sbelongs to user %d, who can change it; it must belong to root or to user %d, as whom delaybridge runs: %s%d %s",
			prefix, stat.Uid, us, chown, us, path))
	}
	if mode&fs.ModeSymlink != 0 {
		return
	}
	others := mode.Perm()&othersMayWrite != 0
	w.open = others && mode.IsDir() && mode&fs.ModeSticky != 0
	if others && !w.open {
		w.faults = append(w.faults, fmt.Sprintf("%scan be changed by others (mode %04o): chmod go-w %s", prefix, mode.Perm(), path))
	}
}
