//go:build linux

package allocation

import "syscall"

// attributes are those of salloc, which withdraws its request when it gets a signal: as gantry dies, too, but not by
// the terminal's Ctrl-C.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
