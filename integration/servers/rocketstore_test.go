//go:build unix

package servers

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEmptyFilesOfAStoreAreDropped(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	if err := dropEmptyFiles(store); err != nil {
		t.Errorf("without a store: %v", err)
	}
	write := func(path, text string) string {
		path = filepath.Join(store, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := write("consumequeue/topic/1/00000000000000060000", "")
	kept := []string{write("consumequeue/topic/1/00000000000000000000", "entries"), write("abort", ""), write("lock", "")}
	if err := dropEmptyFiles(store); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Errorf("the empty file: %v", err)
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
