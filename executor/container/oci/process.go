//go:build linux

package oci

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// process is the first process of a container, by a descriptor that no other process can take over.
type process struct {
	pid  int
	file *os.File      // the pidfd
	gone chan struct{} // closed when it has ended
	wake sync.Once
}

// openProcess returns the process of that number if it is in that control group, else nil: the number may have become
// another's.
func openProcess(pid int, group string) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, file: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{})}
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || !strings.Contains(string(groups), "/"+group+"\n") {
		p.close()
		return nil, nil
	}
	return p, nil
}

func (p *process) close() {
	if p != nil {
		p.file.Close()
	}
}

// with gives f the descriptor.
func (p *process) with(f func(fd int) error) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

func (p *process) signal(s unix.Signal) error {
	return p.with(func(fd int) error { return unix.PidfdSendSignal(fd, s, nil, 0) })
}

func (p *process) ended() bool {
	over := true
	_ = p.with(func(fd int) error {
		over = ready(fd)
		return nil
	})
	return over
}

func ready(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// wait waits for the end of the process and reports whether it came in time.
func (p *process) wait(ctx context.Context, limit time.Duration) bool {
	p.wake.Do(func() {
		go func() {
			defer close(p.gone)
			if raw, err := p.file.SyscallConn(); err == nil {
				_ = raw.Read(func(fd uintptr) bool { return ready(int(fd)) })
			}
		}()
	})
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.gone:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// exit returns the exit code of a process that has ended as the kernel has it, 128 and the signal if one ended it: of
// one that its parent has not asked for yet from the table of processes, of others from the descriptor, which knows it
// since Linux 6.15.
func (p *process) exit() (code int, ok bool) {
	if p == nil {
		return 0, false
	}
	var status int
	_ = p.with(func(fd int) error {
		if status, ok = zombie(p.pid); ok && unix.PidfdSendSignal(fd, 0, nil, 0) == nil { // it has not become another's
			return nil
		}
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		if err := unix.IoctlPidfdInfo(fd, &info); err != nil {
			ok = false
			return err
		}
		status, ok = int(info.Exit_code), info.Mask&unix.PIDFD_INFO_EXIT != 0
		return nil
	})
	s := unix.WaitStatus(status)
	if s.Signaled() {
		return 128 + int(s.Signal()), ok
	}
	return s.ExitStatus(), ok
}

// zombie returns the wait status of a process that has ended and is still in the table of processes.
func zombie(pid int) (status int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// After the name, which may contain anything: state, 48 numbers, and the status.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 50 || fields[0] != "Z" {
		return 0, false
	}
	status, err = strconv.Atoi(fields[49])
	return status, err == nil && (status != 0 || initial())
}

// initial reports whether this process is in the first user namespace of the host. Elsewhere the kernel may show 0 for
// the status of a launcher, which nobody may trace, however it ended.
var initial = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
})
