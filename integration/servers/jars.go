//go:build unix

package servers

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

//go:embed poms
var poms embed.FS

const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// jars returns a directory with the server's jars, which Maven fetches at the
// first use into a cache that outlives the test.
func jars(t TB, server, version string) string {
	t.Helper()
	java(t)
	dir, err := fetch(server, version)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		unavailable(t, "mvn not found: install it with `apt-get install maven`, or run `make deps`")
	case err != nil:
		unavailable(t, "fetch %s %s: %v", server, version, err)
	}
	return dir
}

func java(t TB) string {
	t.Helper()
	path, err := exec.LookPath("java")
	if err != nil {
		unavailable(t, "java not found: install it with `apt-get install default-jdk-headless`, or run `make deps`")
	}
	return path
}

// jvm is the start of a command: a JVM that starts quickly and leaves its
// temporary files in dir. It takes the servers' classes as they are: to verify
// them is a sixth of the work of a start.
func jvm(t TB, dir string) []string {
	t.Helper()
	return []string{java(t), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", "-Djava.io.tmpdir=" + dir}
}

// Fetch puts the jars of every server and version that the tests use, an old Redis
// and, on Debian, the newer servers into the cache, so that later runs need no network.
func Fetch() error {
	for server, versions := range map[string][]string{
		"kafka": {Kafka3, Kafka4}, "rocketmq": {RocketMQ4, RocketMQ5},
	} {
		for _, version := range versions {
			if _, err := fetch(server, version); err != nil {
				return fmt.Errorf("fetch %s %s: %w", server, version, err)
			}
		}
	}
	if _, err := fetchRedis62(); err != nil {
		return fmt.Errorf("fetch Redis 6.2: %w", err)
	}
	if _, err := fetchTrixie(); err != nil && !errors.Is(err, errNotDebian) {
		return fmt.Errorf("fetch newer servers: %w", err)
	}
	return nil
}

// fetch names the directory after the pom's content, so that a changed pom
// makes a new one.
func fetch(server, version string) (string, error) {
	pom, err := fs.ReadFile(poms, "poms/"+server+".xml")
	if err != nil {
		return "", err
	}
	return cached(fmt.Sprintf("%s-%s-%.4x", server, version, sha256.Sum256(pom)), func(dir string) (string, error) {
		return filepath.Join(dir, "jars"), runMaven(dir, pom, version)
	})
}

// cached is a directory of the cache, which appears at once and complete: it is
// filled elsewhere, by one process at a time, and moved. fill is given a directory
// to work in and returns the one to keep.
func cached(name string, fill func(dir string) (string, error)) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unlock, err := lock(filepath.Join(cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := removeUnfinished(cache); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	filled, err := fill(fresh)
	if err != nil {
		return "", err
	}
	return dir, os.Rename(filled, dir)
}

// removeUnfinished removes what processes that were killed have left of their work.
// The caller holds the lock.
func removeUnfinished(cache string) error {
	left, err := filepath.Glob(filepath.Join(cache, "fetch-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func runMaven(dir string, pom []byte, version string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return exec.ErrNotFound
	}
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o600); err != nil {
		return err
	}
	cmd := exec.Command(mvn, "--batch-mode", "--quiet", "--file", file, "-Dserver.version="+version,
		copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "jars"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return nil
}

// cacheDir is DELAYBRIDGE_CACHE, or delaybridge in the user's cache directory.
func cacheDir() (string, error) {
	dir := os.Getenv("DELAYBRIDGE_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "delaybridge")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// lock waits until no other process holds the lock.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
