//go:build unix

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const postgresReadyIn = 60 * time.Second

// Postgres starts a PostgreSQL, which ends with the test, and returns its URL.
func Postgres(t TB) (url string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	Need(t, len(found) > 0 && HasProgram("psql"), "initdb and psql, as in Debian's package postgresql; or run `make deps`")
	dir, err := os.MkdirTemp("", "postgres") // which another user can reach
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := postgresUser(t, dir)
	data, port := filepath.Join(dir, "data"), freePorts(t, 1)
	argv := slices.Concat(as, []string{found[0], "--pgdata=" + data, "--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"})
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	url = fmt.Sprintf("postgres://postgres@%s/postgres", loopback(port))
	p := &process{name: "postgres", dir: dir, argv: slices.Concat(as, []string{filepath.Join(filepath.Dir(found[0]), "postgres"), "-D", data,
		"-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", "", "-F"})}
	t.Cleanup(p.kill)
	n := Node{t: t, what: "PostgreSQL " + url, process: p, readyIn: postgresReadyIn,
		ready: func() error { return exec.Command("psql", "--no-psqlrc", "-c", "SELECT 1", url).Run() }}
	n.Start()
	return url
}

// postgresUser returns what begins a command as a user that PostgreSQL accepts, which root
// is not, and gives that user the folder.
func postgresUser(t TB, dir string) []string {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	Need(t, err == nil && HasProgram("setpriv"), "the user postgres, as Debian's package postgresql makes it")
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatalf("%v", err)
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--pdeathsig=KILL"}
}
