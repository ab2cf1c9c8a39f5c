//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// versionRows are bridges of two versions on the same Redis.
func versionRows() []*row {
	return []*row{{number: 38, name: "mixed versions", level: "fsync", bridges: 3, set: safeRedisWithOldBridge, nemesis: (*run).roll,
		fault:    "the bridges are replaced one after the other by those of an earlier commit, and by those of this one again; one of each is killed with -9",
		expected: "each understands what the other has parked; repeats only by the kills", drainIn: 20 * time.Second,
		needs: map[string]int{"replaced": 6, "killed": 2}}}
}

// safeRedisWithOldBridge builds the earlier bridge first, which takes a while.
func safeRedisWithOldBridge(r *run) redisSetting {
	root, err := moduleRoot()
	if err != nil {
		r.Fatalf("%v", err)
	}
	dir := r.TempDir()
	unpack := exec.Command("sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", root, r.oldCommit, dir)
	if err := exec.Command("git", "-C", root, "rev-parse", "--verify", "--quiet", r.oldCommit+"^{commit}").Run(); err != nil {
		r.Skipf("there is no commit %s here", r.oldCommit)
	}
	if out, err := unpack.CombinedOutput(); err != nil {
		r.Fatalf("unpack commit %s: %v\n%s", r.oldCommit, err, out)
	}
	r.old = filepath.Join(r.TempDir(), "delaybridge")
	if err := build(dir, r.old); err != nil {
		r.Fatalf("of commit %s: %v", r.oldCommit, err)
	}
	return safeRedis(r)
}

// roll replaces the bridges in an order of the seed, forth and back.
func (r *run) roll() {
	for _, binary := range []string{r.old, ""} {
		order := r.dice.Perm(len(r.bridges))
		for _, n := range order {
			b := r.bridges[n]
			if err := b.stop(); err != nil {
				r.find("L9", "%v", err)
			}
			b.binary = binary
			b.start("")
			r.reached("replaced")
			time.Sleep(r.between(500*time.Millisecond, 2*time.Second))
			if n == order[1] { // in the middle both are there
				r.killOne(b)
			}
		}
	}
}

func (r *run) killOne(b *bridge) {
	over := r.strike(fmt.Sprintf("kill %q", b.binary), b)
	b.kill()
	over()
	b.start("")
	r.reached("killed")
}
