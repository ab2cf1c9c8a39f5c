package plugin

import (
	"os"
	"path/filepath"
)

// trusted follows path and returns where it leads. The reasons are why that can't be
// executed; who may change it is not looked at here.
func trusted(path string) (string, []string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path, []string{"can't be used: " + reasonOf(err)}
	}
	info, err := os.Stat(target)
	if err != nil {
		return target, []string{"can't be used: " + reasonOf(err)}
	}
	if reason := unfit(info); reason != "" {
		return target, []string{reason}
	}
	return target, nil
}
