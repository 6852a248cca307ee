//go:build !cgo

package sqlite

import (
	"database/sql/driver"
	"errors"
	"io"

	"gantry/sqlite/sqlite3"
)

// Without C no log can be opened, and nothing of this is called.

const bulkChunk = 0

type rowPlace struct{}

type inserter struct{ most int }

func newInserter(_ *sqlite3.SQLiteConn, _, _, _, _ string) (*inserter, error) {
	return nil, errors.ErrUnsupported
}

func newBatch(*sqlite3.SQLiteConn, string, int, int) (*inserter, error) {
	return nil, errors.ErrUnsupported
}

func (in *inserter) share(...driver.Value) error       { return errors.ErrUnsupported }
func (in *inserter) add(...driver.Value) error         { return errors.ErrUnsupported }
func (in *inserter) end() error                        { return errors.ErrUnsupported }
func (in *inserter) flush() error                      { return errors.ErrUnsupported }
func (in *inserter) take(driver.Value)                 {}
func (in *inserter) takeInt(int64)                     {}
func (in *inserter) takeKnown(int64, bool)             {}
func (in *inserter) takeText(string)                   {}
func (in *inserter) takeBytes([]byte, bool)            {}
func (in *inserter) place() rowPlace                   { return rowPlace{} }
func (in *inserter) revise(rowPlace, int, func()) bool { return false }
func (in *inserter) reset()                            {}
func (in *inserter) close()                            {}

type update struct{ stmt io.Closer }

func newUpdate(*sqlite3.SQLiteConn, string) (*update, error) { return nil, errors.ErrUnsupported }

func (u *update) exec(...driver.Value) error { return errors.ErrUnsupported }
