package integration

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestReleasedBinary looks at the binary as users get it.
func TestReleasedBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delaybridge")
	if out, err := exec.Command("make", "-C", "..", "--no-print-directory", "build", "OUT="+path).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("nothing for tests", func(t *testing.T) { wantNothingForTests(t, path) })
	t.Run("hardened", func(t *testing.T) { wantHardened(t, path) })
}

// forTests is what has no place in the binary that users run. Package testing is not
// in the list: go-plugin imports it for helpers of its own.
var forTests = []string{
	"github.com/golang/mock", "github.com/google/go-cmp", "go.uber.org/goleak", "pgregory.net/rapid",
	module + "interceptors/source/sourcetest", module + "sinks/sinktest", module + "sinks/plugin/plugintest", module + "core/storetest",
}

// wantNothingForTests looks at what the binary is compiled from, and at what
// the linker has left of it: a library's mocks are compiled with it and then dropped.
func wantNothingForTests(t *testing.T, binary string) {
	list := exec.Command("go", "list", "-deps", "./cmd/delaybridge")
	list.Dir = ".."
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := exec.Command("go", "tool", "nm", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range forTests {
		compiled := bytes.Contains(packages, []byte("\n"+name+"\n")) || bytes.Contains(packages, []byte("\n"+name+"/"))
		if compiled && name != "github.com/golang/mock" { // which rocketmq-client-go's mocks import
			t.Errorf("%s is compiled into the binary", name)
		}
		for line := range strings.Lines(string(symbols)) {
			fields := strings.Fields(line)
			if symbol := fields[len(fields)-1]; strings.HasPrefix(symbol, name+".") || strings.HasPrefix(symbol, name+"/") {
				t.Errorf("%s is linked: %s", name, symbol)
				break
			}
		}
	}
}

// wantHardened: the binary is loaded anywhere, and what the loader has written is
// read-only from then on.
func wantHardened(t *testing.T, binary string) {
	if runtime.GOOS != "linux" {
		t.Log("looks at ELF files only")
		return
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	relro := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO })
	flags, err := file.DynValue(elf.DT_FLAGS)
	if err != nil || file.Type != elf.ET_DYN || !relro || len(flags) != 1 || elf.DynFlag(flags[0])&elf.DF_BIND_NOW == 0 {
		t.Errorf("type %s, RELRO %t, flags %v, %v", file.Type, relro, flags, err)
	}
}
