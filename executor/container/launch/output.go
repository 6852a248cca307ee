package launch

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/control"
)

// Files of standard output and error that no task declared: only of these no more than a bound is kept.
const (
	Stdout = ".command.out"
	Stderr = ".command.err"
)

// output takes what a program writes to standard output or error and keeps the beginning of it in a file.
type output struct {
	fd      int // 1 or 2
	file    *os.File
	in, out *os.File // ends of a pipe: this process reads, the program writes
	left    int64    // bytes still to be kept
	dropped int64
	journal *control.Journal
	idle    chan struct{} // closed when nobody reads any more
}

// outputs puts pipes before the files of standard output and error that have a bound, which are open already. It
// returns what the program gets in their place.
func outputs(stdout, stderr string, bound int64, j *control.Journal) (files []uintptr, bounded []*output, err error) {
	open := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	files = []uintptr{0, 1, 2}
	for fd, name := range map[int]string{1: stdout, 2: stderr} {
		if name != Stdout && name != Stderr {
			continue
		}
		o := &output{fd: fd, file: open[fd], left: bound, journal: j, idle: make(chan struct{})}
		if o.in, o.out, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
		files[fd] = o.out.Fd()
		bounded = append(bounded, o)
	}
	return files, bounded, nil
}

// pump runs until nobody can write any more, or finish ends it.
func (o *output) pump() {
	defer close(o.idle)
	buffer := make([]byte, 64<<10)
	for {
		n, err := o.in.Read(buffer)
		o.keep(buffer[:n])
		if err != nil {
			return
		}
	}
}

// keep writes what the bound allows. A full disk ends that, too: the program is not to fail for what it says.
func (o *output) keep(b []byte) {
	n := min(int64(len(b)), o.left)
	if n > 0 {
		if written, err := o.file.Write(b[:n]); err != nil {
			n, o.left = int64(written), 0
		} else {
			o.left -= n
		}
	}
	if n < int64(len(b)) && o.dropped == 0 {
		o.journal.Dropped(o.fd, 0) // in case that this process is killed before it can count
	}
	o.dropped += int64(len(b)) - n
}

// finish takes what the program has left in the pipe, and nothing that processes of its write from now on.
func (o *output) finish() {
	_ = o.in.SetReadDeadline(time.Now())
	<-o.idle
	if raw, err := o.in.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			left, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			for left > 0 {
				buffer := make([]byte, min(left, 64<<10))
				n, err := unix.Read(int(fd), buffer)
				if err != nil || n <= 0 {
					return
				}
				o.keep(buffer[:n])
				left -= n
			}
		})
	}
	if o.dropped > 0 {
		o.journal.Dropped(o.fd, o.dropped)
	}
}

// start gives the ends of the pipes that are the program's away.
func start(bounded []*output) {
	for _, o := range bounded {
		o.out.Close()
		go o.pump()
	}
}

// bound reads the bound of standard output and error.
func bound(text string) (n int64, err error) {
	_, err = fmt.Sscan(text, &n)
	return n, err
}
