//go:build !cgo

package sqlite

import _ "github.com/mattn/go-sqlite3" // it says that it needs cgo

func fault(error) (code int, of error) { return 0, nil }
