package control

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func (d Dir) pipe() string { return filepath.Join(string(d), "wait") }

// Await has the launcher wait for Release before it claims the attempt. The pipe has to stay open until then: a
// launcher that finds it closed without a release ends. Closing it wakes the launcher, so it is closed after Release.
func (d Dir) Await() (*os.File, error) {
	if err := unix.Mkfifo(d.pipe(), 0o666); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &os.PathError{Op: "mkfifo", Path: d.pipe(), Err: err}
	}
	if err := os.Chmod(d.pipe(), 0o666); err != nil { // the umask may be any: the launcher may be another user
		return nil, err
	}
	return os.OpenFile(d.pipe(), os.O_RDWR|unix.O_NONBLOCK, 0) // never blocks, and the launcher finds a writer
}

// Release tells the launcher, or a gantry that adopts the attempt, the facts that were unknown before.
type Release struct {
	Read, Copied, Moved int64 // bytes of inputs, of those from other nodes, of a checkpoint from another node
	Staged              int64 // when the inputs were there: nanoseconds on the axis of the run
	// Words are arguments of the program beyond those that the container was made with.
	Words []string
}

// Release lets the launcher begin: it appears whole.
func (d Dir) Release(r Release) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %d %d\n", r.Read, r.Copied, r.Moved, r.Staged)
	for _, w := range r.Words {
		b.WriteString(w)
		b.WriteByte(0)
	}
	path := filepath.Join(string(d), "go")
	if err := os.WriteFile(path+".part", b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Released returns the release, and whether there was one.
func (d Dir) Released() (r Release, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), "go"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(line, "%d %d %d %d", &r.Read, &r.Copied, &r.Moved, &r.Staged); err != nil {
		return r, false, fmt.Errorf("release %q in %s: %w", line, d, err)
	}
	if rest != "" {
		r.Words = strings.Split(strings.TrimSuffix(rest, "\x00"), "\x00")
	}
	return r, true, nil
}

// Bind makes d, of a container that was started ahead, the control directory of the attempt whose own would be at path:
// for ever, and at once.
func (d Dir) Bind(path Dir) error { return os.Symlink(filepath.Base(string(d)), string(path)) }

// Bound returns the control directory that was made that of the attempt whose own would be d; false if none was.
func (d Dir) Bound() (Dir, bool) {
	to, err := os.Readlink(string(d))
	if err != nil {
		return "", false
	}
	return Dir(filepath.Join(filepath.Dir(string(d)), to)), true
}
