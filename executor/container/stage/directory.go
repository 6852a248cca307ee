package stage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gantry/executor/container/control"
)

// Directory checks a directory that programs of u are to see at its own path, and returns its ID. u has
// to be allowed to read it, or to write to it, on a path without links, and it is neither the root directory nor one of
// the kernel's. Errors are short reasons, and do not name the path.
func (u User) Directory(path string, write bool) (id control.ID, err error) {
	if err := placeName(path); err != nil {
		return id, err
	}
	u.Do(func() { id, err = directory(path, write) })
	return id, err
}

// taken are directories of every container.
var taken = append([]string{"/.gantry", "/run/secrets", "/etc"}, kernelDirs...)

// placeName refuses paths at which no container can have a directory to work in.
func placeName(path string) error {
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return errors.New("not an absolute path in its shortest form")
	case strings.Contains(path, "\x00"):
		return errors.New("no path has a null byte")
	case path == "/" || path == "/tmp":
		return errors.New("a container has its own: work in a directory below")
	}
	below := func(top string) bool { return path == top || strings.HasPrefix(path, top+"/") }
	if i := slices.IndexFunc(taken, below); i >= 0 {
		return fmt.Errorf("below %s, which is the container's own", taken[i])
	}
	return nil
}

func directory(path string, write bool) (id control.ID, err error) {
	at, err := unix.Open("/", openPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for name := range strings.SplitSeq(path[1:], "/") {
		if err != nil {
			break
		}
		above := at
		at, err = unix.Openat(above, name, openPath|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(above)
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return id, errors.New("not a directory, or a link leads there: name the directory itself")
	case err != nil:
		return id, reason(err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	kernels, err := onKernels(at)
	if err := errors.Join(unix.Fstat(at, &st), err); err != nil {
		return id, err
	}
	if kernels {
		return id, errors.New("on a file system of the kernel's")
	}
	mode, may := uint32(unix.R_OK|unix.X_OK), "read"
	if write {
		mode, may = mode|unix.W_OK, "write to"
	}
	// The rights on files of this thread, not the real user's.
	if err := faccessat(at, ".", mode, unix.AT_EACCESS); err != nil {
		return id, fmt.Errorf("the user as whom programs run may not %s it: %w", may, err)
	}
	return control.ID{Device: uint64(st.Dev), Inode: st.Ino}, nil
}
