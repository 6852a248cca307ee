package oci

import (
	"context"
	"errors"
	"os"
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

// openProcess returns the process of that number if it is in the control group of the container, else nil: the number
// may have become another's.
func openProcess(pid int, id string) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, file: os.NewFile(uintptr(fd), "pidfd"), gone: make(chan struct{})}
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || !strings.Contains(string(groups), id) {
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

// ended reports whether the process has ended.
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

// exit returns the exit code as the kernel has it, 128 and the signal if one ended it. Kernels before Linux 6.15 do not
// say.
func (p *process) exit() (code int, ok bool) {
	if p == nil {
		return 0, false
	}
	err := p.with(func(fd int) error {
		info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
		if err := unix.IoctlPidfdInfo(fd, &info); err != nil {
			return err
		}
		if ok = info.Mask&unix.PIDFD_INFO_EXIT != 0; ok {
			s := unix.WaitStatus(info.Exit_code)
			if code = s.ExitStatus(); s.Signaled() {
				code = 128 + int(s.Signal())
			}
		}
		return nil
	})
	return code, ok && err == nil
}
