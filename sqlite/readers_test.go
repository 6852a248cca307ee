package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/sqlite"
)

// A program that ends reading, such as sqlite3, locks the pending byte of SQLite's file format to find out whether it
// is the last one, and readers that begin just then find the log locked. While gantry has the log open
// nobody gets that lock; afterwards it is one file.
func TestNobodyKeepsReadersFromARunningLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path, sqlite.Durable)
	// Closed last: closing it takes SQLite's locks of this process away.
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	lock := func() error {
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 0x40000000, Len: 1})
	}
	if err := lock(); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the log is open, and its pending byte is locked for writing: %v", err)
	}
	must(t, db.Close())
	if err := lock(); err != nil {
		t.Errorf("the log is closed, and its pending byte cannot be locked: %v", err)
	}
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("the log is not one file")
	}
}
