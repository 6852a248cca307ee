//go:build cgo

// Package sqlite3 is the part of the database driver that the log uses. The driver is C: without a C compiler, as where
// make check compiles for another system, all of it is there and no log can be opened.
package sqlite3

import "github.com/mattn/go-sqlite3"

type (
	SQLiteDriver  = sqlite3.SQLiteDriver
	SQLiteConn    = sqlite3.SQLiteConn
	Error         = sqlite3.Error
	ErrNo         = sqlite3.ErrNo
	ErrNoExtended = sqlite3.ErrNoExtended
)

var (
	ErrPerm     = sqlite3.ErrPerm
	ErrBusy     = sqlite3.ErrBusy
	ErrLocked   = sqlite3.ErrLocked
	ErrReadonly = sqlite3.ErrReadonly
	ErrIoErr    = sqlite3.ErrIoErr
	ErrCorrupt  = sqlite3.ErrCorrupt
	ErrFull     = sqlite3.ErrFull
	ErrCantOpen = sqlite3.ErrCantOpen
	ErrNotADB   = sqlite3.ErrNotADB
)
