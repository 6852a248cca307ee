package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gantry/cmd/internal/exit"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/sqlite"
)

// openLog opens the log below home, and makes both if they are missing.
func openLog(home string, mode sqlite.Mode) (*sqlite.DB, error) {
	path := filepath.Join(home, sqlite.FileName)
	_, before := os.Lstat(home)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, exit.Hostf("directory of runs: %w (choose another --dir)", err)
	}
	if before != nil {
		GiveToCaller(home)
	}
	_, before = os.Lstat(path)
	db, err := sqlite.Open(path, mode)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if before != nil {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			GiveToCaller(path + suffix)
		}
	}
	return db, nil
}

// GiveToCaller changes the owner of a file created under sudo to the invoking user: the next command may run
// without sudo.
func GiveToCaller(path string) {
	_ = stage.Caller().Takes(path) // where that cannot be it stays root's
}

func readLog(home string) (*sqlite.DB, error) {
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	return db, LogError(err)
}

// LogError gives an error of reading the log its exit code, unless it has one.
func LogError(err error) error {
	if errors.As(err, new(*sqlite.Unknown)) || errors.Is(err, sqlite.ErrNoLog) {
		return exit.Or(exit.Input, err)
	}
	return exit.Or(exit.Host, err)
}

// OpenToWrite opens the log below home, which has to be there.
func OpenToWrite(home string) (*sqlite.DB, error) {
	path := filepath.Join(home, sqlite.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Inputf("there is no log at %s: nothing was run there, or --dir names another directory", path)
	} else if err != nil {
		return nil, exit.Hostf("log: %w", err)
	}
	db, err := sqlite.Open(path, sqlite.Durable)
	return db, exit.Or(exit.Host, err)
}

// hold takes the locks of a run: of its directory, and of the file lock in it, which names the process. They end with
// the process, so that no stale lock is ever left.
func hold(dir, run string) (locks []*os.File, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, exit.Hostf("run directory: %w (choose another --dir)", err)
	}
	GiveToCaller(dir)
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, exit.Hostf("lock run %s: %w", run, err)
	}
	GiveToCaller(f.Name())
	d, err := os.Open(dir)
	if err == nil {
		if err = lock.Take(d); err == nil {
			err = lock.Take(f)
		}
	}
	if err != nil {
		holder, _ := os.ReadFile(f.Name())
		f.Close()
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, exit.Heldf("run %s is held by another gantry (process %s): wait until it has ended, or stop it",
				run, holder)
		}
		return nil, exit.Hostf("lock run %s: %w", run, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d", os.Getpid())
	}
	return []*os.File{f, d}, nil
}
