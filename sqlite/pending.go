package sqlite

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that may write, such as that of the sqlite3 program, finds out when it closes whether it is the last
// one, and for that moment keeps new ones out: readers without patience then see "database is locked". It begins by
// locking SQLite's pending byte for writing. A lock for reading on that byte keeps everybody from finding out and
// nobody from reading; it is one of an open file description, which SQLite's own locks, being the process's, do not
// undo.
type pending struct{ file *os.File }

// pendingByte is where SQLite's file format has it.
const pendingByte = 0x40000000

// stayOpen takes the lock. A file system without such locks only lacks the benefit of the lock.
func stayOpen(path string) (*pending, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	p := &pending{f}
	for range 100 { // somebody may be closing just now
		if p.lock(unix.F_RDLCK) != unix.EAGAIN {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return p, nil
}

func (p *pending) lock(kind int16) error {
	return lockOpen(p.file, &unix.Flock_t{Type: kind, Start: pendingByte, Len: 1})
}

// release gives the lock up, so that SQLite can put the log into one file.
func (p *pending) release() { _ = p.lock(unix.F_UNLCK) }

// close comes after the last use of SQLite: the kernel takes all of the process's locks on a file when any descriptor
// of it is closed.
func (p *pending) close() error { return p.file.Close() }
