//go:build unix

package servers

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Venv is the interpreter of a virtual environment of python3 that has the packages
// of a file of requirements. pip fetches them at the first use into a cache that
// outlives the test.
func Venv(t TB, requirements string) (python string) {
	t.Helper()
	slow(t)
	Need(t, exec.Command("python3", "-c", "import ensurepip").Run() == nil,
		"python3 with venv; install it with `apt-get install python3-venv`, or run `make deps`")
	dir, err := fetchVenv(requirements)
	if err != nil {
		unavailable(t, "fetch the packages of %s: %v", requirements, err)
	}
	return filepath.Join(dir, "bin", "python")
}

// fetchVenv names the directory after the packages and the interpreter, so that a
// change of either makes a new one.
func fetchVenv(requirements string) (string, error) {
	wanted, err := os.ReadFile(requirements)
	if err != nil {
		return "", err
	}
	interpreter, err := exec.Command("python3", "-c", "import sys; print(sys.executable, sys.version)").Output()
	if err != nil {
		return "", fmt.Errorf("python3: %w", err)
	}
	return cached(fmt.Sprintf("venv-%.4x", sha256.Sum256(slices.Concat(wanted, interpreter))), func(dir string) (string, error) {
		venv := filepath.Join(dir, "venv")
		if out, err := exec.Command("python3", "-m", "venv", venv).CombinedOutput(); err != nil {
			return "", fmt.Errorf("python3 -m venv: %w\n%s", err, out)
		}
		cmd := exec.Command(filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--requirement", requirements)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("pip: %w\n%s", err, out)
		}
		return venv, nil
	})
}
