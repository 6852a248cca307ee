package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gantry/cmd/api"
	"gantry/executor/lock"
)

// HeldError means that another server has the directory.
type HeldError struct {
	Dir string
	PID string // of the other one, as it says
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is served by another gantry (process %s): hand work in to that one, or end it with gantry "+
		"drain", e.Dir, e.PID)
}

// Listener is the socket of a gantry directory, with the lock of its server.
type Listener struct {
	*net.UnixListener
	path string
	lock *os.File
}

// claim takes the lock of the server of a directory. The lock ends with the process, however that ends.
func claim(dir string) (*os.File, error) {
	path := filepath.Join(dir, api.LockName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory to serve it: %w", err)
	}
	if err := lock.Take(f); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid, _ := os.ReadFile(path)
			return nil, &HeldError{dir, strings.TrimSpace(string(pid))}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}

// OwnerOnly, in place of a group, lets only the owner of the socket connect.
const OwnerOnly = -1

// Listen opens the socket of a directory, in place of one that a killed server left. Only its owner may connect, and
// the members of a group if one is named by its number. The error is a *HeldError if another server has the directory.
func Listen(dir string, group int) (*Listener, error) {
	f, err := claim(dir)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o600)
	if group != OwnerOnly { // its members see whether the server has ended
		mode, err = 0o640, f.Chown(-1, group)
	}
	l := (*Listener)(nil)
	if err = errors.Join(err, f.Chmod(mode)); err == nil {
		l, err = open(dir, group)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.lock = f
	return l, nil
}

func open(dir string, group int) (*Listener, error) {
	path := filepath.Join(dir, api.SocketName)
	bad := func(err error) (*Listener, error) {
		return nil, fmt.Errorf("open the socket %s: %w (the file system of the directory has to take sockets; choose "+
			"another --dir)", path, err)
	}
	at, err := os.Open(dir)
	if err != nil {
		return bad(err)
	}
	defer at.Close()
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return bad(errors.New("there is a file of that name that is no socket"))
	}
	// It is made under another name, so that clients never find a socket that is not ready, nor none for a moment.
	making := path + ".new"
	if err := os.Remove(making); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bad(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: api.AddressIn(at) + ".new"})
	if err != nil {
		return bad(err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(making, 0o600); err == nil && group != OwnerOnly {
		// In this order: no group of another directory may connect meanwhile.
		err = errors.Join(os.Lchown(making, os.Geteuid(), group), os.Chmod(making, 0o660))
	}
	if err == nil {
		err = os.Rename(making, path)
	}
	if err != nil {
		l.Close()
		_ = os.Remove(making)
		return bad(err)
	}
	return &Listener{UnixListener: l, path: path}, nil
}

// Unlink removes the socket: nobody else connects.
func (l *Listener) Unlink() error {
	if l.lock == nil {
		return nil // it may be that of another server by now
	}
	if err := os.Remove(l.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Release removes the socket, closes it and gives the lock back.
func (l *Listener) Release() error {
	err := l.Unlink()
	if e := l.UnixListener.Close(); !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	if l.lock != nil {
		err, l.lock = errors.Join(err, l.lock.Close()), nil
	}
	return err
}

// Peer is the process at the other end of a connection, as the kernel knows it: as it was when it connected.
type Peer struct {
	UID, GID, PID int
	Groups        []int // supplementary ones
}
