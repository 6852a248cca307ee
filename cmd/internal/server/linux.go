//go:build linux

package server

import (
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks the kernel for the peer of a connection.
func peerOf(c net.Conn) (Peer, error) {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("a connection of type %T has no peer", c)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var groups []int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
			groups, failed = peerGroups(fd)
		}
	}); err != nil {
		return Peer{}, err
	}
	if failed != nil {
		return Peer{}, failed
	}
	return Peer{int(cred.Uid), int(cred.Gid), int(cred.Pid), groups}, nil
}

// peerGroups asks the kernel for the supplementary groups of a peer (SO_PEERGROUPS, Linux 4.13).
func peerGroups(fd uintptr) ([]int, error) {
	ids := make([]uint32, 64)
	for {
		size := uint32(4 * len(ids))
		_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&ids[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch e {
		case 0:
			out := make([]int, size/4)
			for i := range out {
				out[i] = int(ids[i])
			}
			return out, nil
		case unix.ERANGE: // size has the length needed
			ids = make([]uint32, size/4)
		default:
			return nil, fmt.Errorf("groups of who connected: %w", e)
		}
	}
}
