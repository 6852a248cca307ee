// Package exit gives errors the code with which gantry exits. docs/running.md and gantry --help list the codes.
package exit

import (
	"errors"
	"fmt"

	"gantry/cmd/gantry/early"
)

// The codes.
const (
	OK          = 0             // all tasks succeeded
	TasksFailed = 1             // the run ended, tasks failed or were skipped
	Usage       = 2             // wrong command line
	Input       = 3             // invalid or unsupported input
	Host        = 4             // host or Docker not usable
	Internal    = 6             // a fault of gantry's own
	Held        = 75            // another gantry holds this run
	Interrupted = early.Stopped // 130: stopped by a signal, resumable
)

// Error is an error with a code. A nil Err prints nothing.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// With gives err a code.
func With(code int, err error) error { return &Error{code, err} }

// Or gives err a code, unless it has one or is nil.
func Or(code int, err error) error {
	if _, coded := errors.AsType[*Error](err); coded || err == nil {
		return err
	}
	return With(code, err)
}

// Usagef is the error of a wrong command line.
func Usagef(format string, args ...any) error { return With(Usage, fmt.Errorf(format, args...)) }

// Inputf is the error of an invalid or unsupported input.
func Inputf(format string, args ...any) error { return With(Input, fmt.Errorf(format, args...)) }

// Hostf is the error of a host that is not usable.
func Hostf(format string, args ...any) error { return With(Host, fmt.Errorf(format, args...)) }

// Internalf is a fault of gantry's own.
func Internalf(format string, args ...any) error { return With(Internal, fmt.Errorf(format, args...)) }

// Stoppedf is the error of a command that a signal stopped.
func Stoppedf(format string, args ...any) error {
	return With(Interrupted, fmt.Errorf(format, args...))
}

// Heldf is the error of a run or a directory that another gantry holds.
func Heldf(format string, args ...any) error { return With(Held, fmt.Errorf(format, args...)) }

// CodeOf returns the code of an error: Internal if nobody gave it one, OK if it is nil.
func CodeOf(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}
