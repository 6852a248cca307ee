// Package outside finds the files of a run that no task of it makes: where each lies, and whether the calling user may
// read it. Catalogs can name any file of the host, so that only regular files count, outside /proc, /sys and /dev, and
// gantry opens them with the rights of the user who called it, also under sudo.
package outside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User is whose rights count.
type User struct{ UID, GID int }

// kernelDirs hold files of the kernel's.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// kernelTypes are the file systems that are mounted there, and may be elsewhere too.
var kernelTypes = []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.DEVPTS_SUPER_MAGIC}

// Open opens a regular file for reading if u may read it. Errors are short reasons, and do not name the path.
func (u User) Open(path string) (f *os.File, err error) {
	u.do(func() { f, err = open(path) })
	return f, err
}

// do calls f with the rights of u, where this process has those of root.
func (u User) do(f func()) {
	if os.Geteuid() != 0 || u.UID == 0 {
		f()
		return
	}
	done := make(chan any)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and its rights with it
		defer func() { done <- recover() }()
		u.become()
		f()
	}()
	if failed := <-done; failed != nil {
		panic(failed)
	}
}

// become gives this thread, and no other, the rights of u on files.
func (u User) become() {
	groups := []uint32{}
	if who, err := user.LookupId(strconv.Itoa(u.UID)); err == nil {
		ids, _ := who.GroupIds()
		for _, id := range ids {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				groups = append(groups, uint32(n))
			}
		}
	}
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
		panic(fmt.Sprintf("setgroups: %v", e))
	}
	_, _ = unix.SetfsgidRetGid(u.GID)
	_, _ = unix.SetfsuidRetUid(u.UID) // from root to another: the capabilities that override rights on files go, too
	if now, _ := unix.SetfsuidRetUid(-1); now != u.UID {
		panic(fmt.Sprintf("setfsuid %d: it is %d", u.UID, now))
	}
}

func open(path string) (*os.File, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, reason(err)
	}
	for _, dir := range kernelDirs {
		if real == dir || strings.HasPrefix(real, dir+"/") {
			return nil, fmt.Errorf("below %s, where nothing is read", dir)
		}
	}
	st, err := os.Stat(real)
	if err != nil {
		return nil, reason(err)
	}
	if err := regular(st); err != nil { // before it is opened: that alone does something to some devices
		return nil, err
	}
	f, err := os.OpenFile(real, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, reason(err)
	}
	var fsType unix.Statfs_t
	if st, err = f.Stat(); err == nil {
		if err = regular(st); err == nil {
			err = unix.Fstatfs(int(f.Fd()), &fsType)
		}
	}
	for _, t := range kernelTypes {
		if err == nil && int64(fsType.Type) == t {
			err = errors.New("on a file system of the kernel's, where nothing is read")
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(st fs.FileInfo) error {
	switch {
	case st.Mode().IsRegular():
		return nil
	case st.IsDir():
		return errDirectory
	default:
		return errors.New("not a regular file")
	}
}

var errDirectory = errors.New("a directory, not a file")

// Entry is a file or a directory in a directory; links that stay in it are what they lead to.
type Entry struct {
	Name string // relative
	Dir  bool
}

// Tree lists a directory, directories before what is in them, if u may read all of it, and adds up its sizes in bytes.
func (u User) Tree(dir string) (size int64, entries []Entry, err error) {
	u.do(func() { size, entries, err = tree(dir) })
	return size, entries, err
}

func tree(dir string) (size int64, entries []Entry, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, nil, reason(err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", p, reason(err))
		}
		if !d.IsDir() {
			st, err := root.Stat(p)
			if err == nil && st.IsDir() {
				err = errors.New("a link to a directory")
			} else if err == nil {
				size += st.Size()
				var f *os.File
				if f, err = open(filepath.Join(dir, p)); err == nil {
					f.Close()
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p, reason(err))
			}
		}
		entries = append(entries, Entry{filepath.FromSlash(p), d.IsDir()})
		return nil
	})
	return size, entries, err
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
