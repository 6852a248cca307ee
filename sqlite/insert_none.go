//go:build !cgo

package sqlite

import "errors"

// insertRows is never called: without C no log can be opened.
func (in *inserter) insertRows(int) error { return errors.ErrUnsupported }
