//go:build cgo

package sqlite

/*
#include <stdint.h>
#include <stddef.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

// The driver brings these; weak, as cgo links each package by itself before all are linked together.
#define BROUGHT __attribute__((weak))
extern int sqlite3_bind_null(sqlite3_stmt *, int) BROUGHT;
extern int sqlite3_bind_int64(sqlite3_stmt *, int, long long) BROUGHT;
extern int sqlite3_bind_double(sqlite3_stmt *, int, double) BROUGHT;
extern int sqlite3_bind_text(sqlite3_stmt *, int, const char *, int, void (*)(void *)) BROUGHT;
extern int sqlite3_bind_blob(sqlite3_stmt *, int, const void *, int, void (*)(void *)) BROUGHT;
extern int sqlite3_step(sqlite3_stmt *) BROUGHT;
extern int sqlite3_reset(sqlite3_stmt *) BROUGHT;
extern int sqlite3_clear_bindings(sqlite3_stmt *) BROUGHT;
extern sqlite3 *sqlite3_db_handle(sqlite3_stmt *) BROUGHT;
extern int sqlite3_system_errno(sqlite3 *) BROUGHT;
extern const char *sqlite3_errmsg(sqlite3 *) BROUGHT;

enum { NONE, INTEGER, REAL, TEXT, BLOB };

typedef struct { // insert.go has the same
	int64_t value;
	int32_t kind, length;
} cell;

static int bind(sqlite3_stmt *s, int n, const cell *c, const char *memory) {
	double d;
	switch (c->kind) {
	case INTEGER:
		return sqlite3_bind_int64(s, n, c->value);
	case REAL:
		__builtin_memcpy(&d, &c->value, sizeof d);
		return sqlite3_bind_double(s, n, d);
	case TEXT: // it is used before the call returns
		return sqlite3_bind_text(s, n, memory + c->value, c->length, NULL);
	case BLOB:
		return sqlite3_bind_blob(s, n, memory + c->value, c->length, NULL);
	}
	return sqlite3_bind_null(s, n);
}

// insert runs a statement once for each row: the shared values, then its own.
static int insert(sqlite3_stmt *s, const cell *cells, int shared, int width, int rows, const char *memory, int *errno) {
	int rc = 0;
	for (int i = 0; i < shared && !rc; i++)
		rc = bind(s, i + 1, &cells[i], memory);
	const cell *row = cells + shared;
	for (int r = 0; r < rows && !rc; r++, row += width) {
		for (int i = 0; i < width && !rc; i++)
			rc = bind(s, shared + i + 1, &row[i], memory);
		if (!rc)
			rc = sqlite3_step(s) == 101 ? 0 : -1; // SQLITE_DONE
		if (rc < 0)
			*errno = sqlite3_system_errno(sqlite3_db_handle(s));
		int ended = sqlite3_reset(s); // returns the error of the step
		if (rc < 0)
			rc = ended;
	}
	sqlite3_clear_bindings(s);
	return rc;
}
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"gantry/sqlite/sqlite3"
)

// insertRows runs a statement once for each row.
func (in *inserter) insertRows(rows int) error {
	memory := append(in.memory, 0) // not empty
	var errno C.int
	handle := (*C.sqlite3_stmt)(in.handle)
	rc := C.insert(handle, (*C.cell)(unsafe.Pointer(&in.cells[0])), C.int(in.shared), C.int(in.width), C.int(rows),
		(*C.char)(unsafe.Pointer(&memory[0])), &errno)
	if rc == 0 {
		return nil
	}
	err := sqlite3.Error{Code: sqlite3.ErrNo(rc & 0xff), ExtendedCode: sqlite3.ErrNoExtended(rc),
		SystemErrno: syscall.Errno(errno)}
	return fmt.Errorf("%w: %s", err, C.GoString(C.sqlite3_errmsg(C.sqlite3_db_handle(handle))))
}
