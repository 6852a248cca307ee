//go:build linux

package docker

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Since is when the Docker Engine that answers was started; the zero Time if the host does not tell. With socket
// activation it is when the host was.
func (e *Engine) Since() time.Time {
	pid := e.pid()
	if pid == 0 {
		return time.Time{}
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return time.Time{}
	}
	// After the name, which may contain anything: field 22 is the start, in hundredths of a second since the host was
	// started.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var up unix.Timespec
	if len(fields) < 20 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(ticks)*10*time.Millisecond - time.Duration(up.Nano()))
}

// pid is the process that listens for requests to the Docker Engine; 0 if it cannot be seen from here.
func (e *Engine) pid() int {
	path, _ := strings.CutPrefix(e.cli.DaemonHost(), "unix://")
	c, err := net.DialTimeout("unix", path, 2*time.Second)
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil || err != nil {
		return 0
	}
	return int(peer.Pid)
}
