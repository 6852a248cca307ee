package session

import (
	"errors"
	"os"
	"path/filepath"

	"gantry/cmd/internal/exit"
	"gantry/executor/container/stage"
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
	if o := stage.Caller(); o.UID != os.Geteuid() {
		_ = os.Lchown(path, o.UID, o.GID) // where that cannot be it stays root's
	}
}

// readLog opens the log below home for reading.
func readLog(home string) (*sqlite.DB, error) {
	db, err := sqlite.Open(filepath.Join(home, sqlite.FileName), sqlite.ReadOnly)
	return db, LogError(err)
}

// LogError gives an error of reading the log its exit code, unless it has one.
func LogError(err error) error {
	run, task, none := new(sqlite.UnknownRunError), new(sqlite.UnknownTaskError), new(sqlite.NotArrivedError)
	switch _, coded := errors.AsType[*exit.Error](err); {
	case err == nil || coded:
		return err
	case errors.As(err, &run), errors.As(err, &task), errors.As(err, &none), errors.Is(err, sqlite.ErrNoLog):
		return exit.With(exit.Input, err)
	}
	return exit.With(exit.Host, err)
}

// OpenToWrite opens the log below home, which has to be there.
func OpenToWrite(home string) (*sqlite.DB, error) {
	path := filepath.Join(home, sqlite.FileName)
	if _, err := os.Stat(path); err != nil {
		return nil, noLog(home)
	}
	db, err := sqlite.Open(path, sqlite.Durable)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	return db, nil
}

func noLog(home string) error {
	return exit.Inputf("there is no log at %s: nothing was run there, or --dir names another directory",
		filepath.Join(home, sqlite.FileName))
}
