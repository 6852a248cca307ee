package crashtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// witness counts, by what the kernel tells of all processes of the host, how often the program of each task ended well:
// whoever made its container has no hand in it. The last act of a program is to give itself a name (mark), which the
// kernel reports, and then its exit code.
type witness struct {
	tag       string // of names that are this test's
	mu        sync.Mutex
	marked    map[uint32]string // names by process
	succeeded map[string]int    // by name
	missed    int               // times that the kernel had more to say than was read
}

// Of linux/cn_proc.h and linux/connector.h.
const (
	cnProc        = 1 // index and value of the connector's messages about processes
	procListen    = 1
	procEventComm = 0x200
	procEventExit = 0x80000000
	nlHeader      = 16
	cnHeader      = 20
)

// newWitness returns nil where the kernel tells nothing: it takes CONFIG_PROC_EVENTS, root and the first name spaces.
func newWitness(t *testing.T) *witness {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnProc})
	}
	if err != nil {
		t.Logf("the kernel tells nothing of processes: %v", err)
		return nil
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	var b bytes.Buffer
	put := func(words ...any) {
		for _, w := range words {
			_ = binary.Write(&b, binary.NativeEndian, w)
		}
	}
	put(uint32(nlHeader+cnHeader+4), uint16(unix.NLMSG_DONE), uint16(0), uint32(0), uint32(0))
	put(uint32(cnProc), uint32(cnProc), uint32(0), uint32(0), uint16(4), uint16(0), uint32(procListen))
	if err := unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		t.Logf("the kernel tells nothing of processes: %v", err)
		return nil
	}
	w := &witness{tag: fmt.Sprintf("%03x", unix.Getpid()&0xfff), marked: map[uint32]string{},
		succeeded: map[string]int{}}
	go w.listen(fd) // until the test's process ends
	return w
}

func (w *witness) listen(fd int) {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			w.mu.Lock()
			w.missed++
			w.mu.Unlock()
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case n >= nlHeader+cnHeader+16:
			w.heard(buffer[nlHeader+cnHeader : n])
		}
	}
}

// heard takes an event: what happened, the processor, the time, the thread, its process, and a name or an exit status.
func (w *witness) heard(event []byte) {
	word := func(at int) uint32 {
		if len(event) < at+4 {
			return 0
		}
		return binary.NativeEndian.Uint32(event[at:])
	}
	thread, process := word(16), word(20)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch word(0) {
	case procEventComm:
		name, _, _ := bytes.Cut(event[24:min(len(event), 40)], []byte{0})
		if text := strings.TrimSpace(string(name)); strings.HasPrefix(text, w.tag+"-") {
			w.marked[process] = text
		}
	case procEventExit:
		if name := w.marked[process]; name != "" && thread == process {
			delete(w.marked, process)
			if word(24) == 0 {
				w.succeeded[name]++
			}
		}
	}
}

// name is what the program of a task calls itself: the kernel keeps 15 characters.
func (w *witness) name(round int64, task string) string {
	return fmt.Sprintf("%s-%d-%.4s", w.tag, round, task)
}

// mark is the end of a script.
func (w *witness) mark(round int64, task string) string {
	if w == nil {
		return ""
	}
	return "; echo " + w.name(round, task) + " > /proc/self/comm"
}

// await waits until the kernel's news of the last task of a round have come: on a busy host they are late.
func (w *witness) await(round int64) {
	for end := time.Now().Add(patience); w != nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if n, sure := w.successes(round, last); n > 0 || !sure {
			return
		}
	}
}

// successes is how often the program of a task ended well; false if the kernel did not tell all.
func (w *witness) successes(round int64, task string) (n int, sure bool) {
	if w == nil {
		return 0, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.succeeded[w.name(round, task)], w.missed == 0
}
