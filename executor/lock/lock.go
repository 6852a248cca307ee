// Package lock has the locks by which gantries know of each other: of runs, of shells, of servers. They end with the
// process, so that no stale lock is ever left.
package lock

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Take locks a file or a directory until it is closed, or fails with unix.EWOULDBLOCK. It tries for half a second, as
// Taken has the lock for a moment.
func Take(f *os.File) (err error) {
	for range 50 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Taken reports whether somebody has the lock of a file or a directory. One that the caller may not read counts as
// free.
func Taken(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// OfRun reports whether a gantry works on the run of a directory: it takes the directory, too, as people delete files.
func OfRun(dir string) bool { return Taken(dir) || Taken(filepath.Join(dir, "lock")) }
