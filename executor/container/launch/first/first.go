// Package first begins the program of a task inside its container, and stays its first process: it claims the attempt,
// gives up the rights of root, opens the files that standard input, output and error are redirected to, passes signals
// on to the program, reaps orphans of the program, and notes how it ended. So output reaches its file byte for byte and
// as it is written, even if gantry or the Docker Engine dies, and the image needs no shell.
//
// It is written in C, and runs before the Go runtime of a program that imports this package starts, if the first
// argument of that is "launch": it starts once per task, and the Go runtime with its threads costs a multiple of the
// launcher's own work. It reads and writes the files in the control directory that package control describes.
//
// The container begins as root with no capability but those to become another user. The control directory is root's,
// or lies in a directory that is, so the program, which is another user, cannot reach it. The launcher keeps the file
// of its account open; it cannot be traced, so the program has no way to that file either.
package first

// #cgo CFLAGS: -O2 -Wall
// #cgo LDFLAGS: -static
import "C"
