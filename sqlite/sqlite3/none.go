//go:build !cgo

package sqlite3

import (
	"database/sql/driver"
	"errors"
)

var errNone = errors.New("this gantry was built without cgo, and has no SQLite: build it with a C compiler")

type SQLiteDriver struct{ ConnectHook func(*SQLiteConn) error }

func (*SQLiteDriver) Open(string) (driver.Conn, error) { return nil, errNone }

type SQLiteConn struct{ driver.Conn }

func (*SQLiteConn) AutoCommit() bool { return true }

func (*SQLiteConn) Exec(string, []driver.Value) (driver.Result, error) { return nil, errNone }

func (*SQLiteConn) Query(string, []driver.Value) (driver.Rows, error) { return nil, errNone }

type ErrNo int

type Error struct {
	Code        ErrNo
	SystemErrno error
}

func (Error) Error() string { return errNone.Error() }

const (
	ErrPerm     ErrNo = 3
	ErrBusy     ErrNo = 5
	ErrLocked   ErrNo = 6
	ErrReadonly ErrNo = 8
	ErrIoErr    ErrNo = 10
	ErrCorrupt  ErrNo = 11
	ErrFull     ErrNo = 13
	ErrCantOpen ErrNo = 14
	ErrNotADB   ErrNo = 26
)
