// Files of a run that no task of it makes: where each lies, and whether the calling user may read it. Catalogs can name
// any file of the host, so that only regular files count, outside /proc, /sys and /dev, and gantry opens them with the
// rights of the user that called it, also under sudo.

package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gantry/cgroup/thread"
	"gantry/executor"
	"gantry/executor/container/control"
	"gantry/trace/shown"
)

// User is the user whose rights count.
type User executor.User

// kernelDirs hold files of the kernel's.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Open opens a regular file for reading if u may read it. Errors are short reasons, and do not name the path.
func (u User) Open(path string) (f *os.File, err error) {
	u.Do(func() { f, _, err = open(path) })
	return f, err
}

// Do calls f with the rights of u on files, where this process has those of root: files that f makes belong to u. F
// runs on a thread of its own, and goroutines that it starts have this process's rights.
func (u User) Do(f func()) {
	if os.Geteuid() != 0 || u.UID == 0 {
		f()
		return
	}
	done := make(chan any)
	thread.Go(func() {
		defer func() { done <- recover() }()
		u.become()
		f()
	})
	if failed := <-done; failed != nil {
		panic(failed)
	}
}

// kernelDir is the one of these that a path without links is in; "" if it is in none.
func kernelDir(path string) string {
	for _, dir := range kernelDirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return dir
		}
	}
	return ""
}

func errKernels(dir string) error { return fmt.Errorf("below %s, where nothing is read", dir) }

// find returns the file or directory at a path, not yet opened, so that nothing can take its place between a check and
// its use. It is on no file system of the kernel's, and the path leads through no open file of a process
// (/proc/self/fd): those of this process are not u's.
func find(path string) (f *os.File, st fs.FileInfo, err error) {
	if f, err = Real(path, openPath); err != nil {
		if real, e := filepath.EvalSymlinks(path); e == nil && kernelDir(real) != "" { // for the reason alone
			return nil, nil, errKernels(kernelDir(real))
		}
		return nil, nil, reason(err)
	}
	if real, e := realPath(f); e == nil && kernelDir(real) != "" {
		f.Close()
		return nil, nil, errKernels(kernelDir(real))
	}
	kernels := false
	if st, err = f.Stat(); err == nil {
		kernels, err = onKernels(int(f.Fd()))
	}
	switch {
	case err != nil:
	case kernels:
		err = errors.New("on a file system of the kernel's, where nothing is read")
	case !st.Mode().IsRegular() && !st.IsDir():
		err = errors.New("not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// reading has no side effects on devices and pipes.
const reading = os.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

func open(path string) (*os.File, fs.FileInfo, error) {
	found, st, err := find(path)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	if st.IsDir() {
		return nil, nil, errDirectory
	}
	f, err := os.OpenFile(foundAt(found), reading, 0)
	if err != nil {
		return nil, nil, reason(err)
	}
	return f, st, nil
}

// folder is the directory of the file that was opened last: for another file in it the way there is not checked again.
// It is for the files of one user.
type folder struct {
	path   string
	root   *os.Root // nil: it cannot be listed, or nothing was opened yet
	device uint64
}

// open opens a regular file and describes it. A link, or a mount, is found by the whole path.
func (d *folder) open(path string) (*os.File, fs.FileInfo, error) {
	dir, name := filepath.Split(path)
	if dir != d.path {
		d.close()
		d.path = dir
		if found, st, err := find(dir); err == nil {
			d.root, _ = os.OpenRoot(foundAt(found))
			d.device = deviceOf(st)
			found.Close()
		}
	}
	if d.root != nil {
		st, err := d.root.Lstat(name)
		if err == nil && st.Mode().IsRegular() && deviceOf(st) == d.device {
			f, now, err := described(d.root.OpenFile(name, reading, 0))
			if err == nil && os.SameFile(st, now) {
				return f, now, nil
			}
			f.Close()
		}
	}
	return open(path)
}

func (d *folder) close() {
	if d.root != nil {
		d.root.Close()
	}
	*d = folder{}
}

// described adds its description to an open file.
func described(f *os.File, err error) (*os.File, fs.FileInfo, error) {
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	return f, st, err
}

func deviceOf(st fs.FileInfo) uint64 {
	sys, _ := st.Sys().(*syscall.Stat_t)
	return uint64(sys.Dev)
}

// opener opens files for u, which are in one directory for the most part. Errors name the path.
func (u User) opener(last *folder) opener {
	return func(path string) (f *os.File, st fs.FileInfo, err error) {
		u.Do(func() { f, st, err = last.open(path) })
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return f, st, err
	}
}

// Visible checks a file or a directory that programs of u are to read, and returns its ID, which a link
// that is changed afterwards does not have. Errors are short reasons, and do not name the path.
func (u User) Visible(path string) (id control.ID, err error) {
	id, _, err = u.visible(path)
	return id, err
}

// visible returns the path, too, to which links lead.
func (u User) visible(path string) (id control.ID, at string, err error) {
	u.Do(func() {
		var f *os.File
		var st fs.FileInfo
		if f, st, err = find(path); err != nil {
			return
		}
		defer f.Close()
		mode := uint32(unix.R_OK)
		if st.IsDir() {
			mode |= unix.X_OK
		}
		if err = faccessat(unix.AT_FDCWD, foundAt(f), mode, unix.AT_EACCESS); err != nil {
			err = reason(err)
			return
		}
		if at, err = realPath(f); err != nil {
			return
		}
		var s unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &s)
		id = control.ID{Device: uint64(s.Dev), Inode: s.Ino}
	})
	return id, at, err
}

// Shown checks a file, or a directory with all that is in it, that programs of u are to see at another path. Links lead
// where they do in the container, and files that u may not read stay closed there. Sockets, pipes and devices are
// refused: programs could use them by a mount that is read-only, too.
func (u User) Shown(path string) error {
	_, err := u.Visible(path)
	if err != nil {
		return err
	}
	u.Do(func() {
		err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil && faccessat(unix.AT_FDCWD, p, unix.X_OK, unix.AT_EACCESS) == nil {
				return fmt.Errorf("%s: its files cannot be listed, and can be opened", shown.Quote(p))
			}
			if err != nil || d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0 {
				return nil
			}
			f, _, err := find(p)
			if err != nil {
				return fmt.Errorf("%s: %w", shown.Quote(p), err)
			}
			return f.Close()
		})
	})
	return err
}

var errDirectory = errors.New("a directory, not a file")

// Entry is a file, a directory or a link in a directory.
type Entry struct {
	Name string // relative
	Dir  bool
	Link string // where a link leads, within the directory; it is relative
}

// SizeBelow adds up the sizes of the files in a directory, in bytes, if u may read all of it.
func (u User) SizeBelow(dir string) (size int64, err error) {
	u.Do(func() { size, err = sizeBelow(dir) })
	return size, err
}

func sizeBelow(dir string) (size int64, err error) {
	all, err := entriesBelow(dir)
	if err != nil {
		return 0, err
	}
	var last folder
	defer last.close()
	for _, e := range all {
		if e.Dir || e.Link != "" {
			continue
		}
		f, st, err := last.open(filepath.Join(dir, e.Name))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", e.Name, err)
		}
		f.Close()
		size += st.Size()
	}
	return size, nil
}

// entriesBelow lists a directory, parents before their files. Its links have to stay in it.
func entriesBelow(dir string) (all []Entry, err error) {
	top, _, err := find(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	root, err := os.OpenRoot(foundAt(top))
	if err != nil {
		return nil, reason(err)
	}
	defer root.Close()
	real, err := realPath(top)
	if err != nil {
		return nil, err
	}
	err = walk(root, ".", MostFiles, func(p string, d fs.DirEntry, err error) error {
		e := Entry{Name: filepath.FromSlash(p), Dir: d != nil && d.IsDir()}
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			e.Link, err = linkInside(root, real, dir, e.Name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, reason(err))
		}
		all = append(all, e)
		return nil
	})
	return all, err
}

// linkInside is the text of a link that stays in the directory, which has two names.
func linkInside(root *os.Root, dir, other, name string) (text string, err error) {
	if _, err = Follow(root, dir, name, other); err == nil || errors.Is(err, fs.ErrNotExist) {
		text, err = root.Readlink(name)
	}
	return Relative(dir, name, text, other), err
}

var errNone = errors.New("no such file")

// reason is an error of a system call without the path.
func reason(err error) error {
	var e unix.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNone
	case errors.Is(err, fs.ErrPermission):
		return errors.New("you may not read it")
	case errors.As(err, &e):
		return e
	}
	return err
}
