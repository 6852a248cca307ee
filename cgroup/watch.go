//go:build linux

package cgroup

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gantry/cgroup/thread"
)

// Watcher reads the final counters of containers' groups in the moment between the end of the last process and the
// removal of the group, which runc does some 15 ms later, and samples those that live long. One thread does it for all
// groups: inotify reports a new group, a pidfd the end of its process.
//
// The process of a container changes while runc sets it up, so the end of a process is the end of the container only if
// no other lives.
type Watcher struct {
	tree   *Tree
	device Device // whose limits are read back
	sample func(Sample)
	first  time.Duration // until the first sample; doubles up to last
	last   time.Duration

	epoll, inotify, wake int
	done                 chan struct{}
	ahead                bool // of all other threads of the host

	mu     sync.Mutex
	closed bool
	wds    map[int32][]*watch // by inotify watch; those below one parent share it
	fds    map[int32]*watch   // by pidfd
	keys   map[int64]*watch
}

type watch struct {
	key    int64
	group  string // of the container
	want   Set    // at the end
	dir    string // of the group, in the hierarchy that is followed
	files  *files // of the group; nil until it was found
	wd     int32  // of its parent, and then of its list of processes; -1 once there was a process
	pidfd  int32  // of a process that lives; -1 if none is known
	last   int32  // pidfd of the last process, when none lives any more; else -1
	next   time.Time
	every  time.Duration
	got    Counters // last reading
	limits Limits
	looks  int       // at its limits, while it lived
	exact  Set       // counters of got that were read after the last process ended
	over   time.Time // when that was; zero if it was not seen
	probes int
	ends   chan struct{} // capacity 1: the last process was seen to end
}

// Sampling intervals: the first sample comes when a container has had time to begin, and long tasks do not make more
// than one in two seconds.
const (
	FirstSample = 200 * time.Millisecond
	LastSample  = 2 * time.Second
)

// NewWatcher starts a watcher. It gives the process the nice value -10, if it may, and at least four places for Go code
// to run. Sample, which may be nil, is called from the watcher's thread and must be quick. Block I/O limits are read
// back for dev.
func (t *Tree) NewWatcher(dev Device, sample func(Sample)) (*Watcher, error) {
	w := &Watcher{tree: t, device: dev, sample: sample, first: FirstSample, last: LastSample, done: make(chan struct{}),
		wds: map[int32][]*watch{}, fds: map[int32]*watch{}, keys: map[int64]*watch{}, epoll: -1, inotify: -1, wake: -1}
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		w.inotify, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if errors.Is(err, unix.EMFILE) { // other programs of this user have all instances: look at times instead
			w.inotify, err = -1, nil
		}
	}
	if err == nil {
		w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	for _, fd := range []int{w.inotify, w.wake} {
		if err == nil && fd >= 0 {
			err = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		w.release()
		return nil, fmt.Errorf("watching control groups: %w", err)
	}
	// A thread that comes back from a wait needs one of Go's few places to run; with a spare one it need not wait for a
	// thread of ours that holds one and was itself pushed aside.
	if spare := 4; runtime.GOMAXPROCS(0) < spare {
		runtime.GOMAXPROCS(spare)
	}
	hurry()
	thread.Go(w.loop)
	return w, nil
}

// hurry puts this process before those it starts, where that is allowed: it does little, and little late is too late
// for counters that vanish. Other sleeps of it may be late by slack: Go's monitor else wakes every 70 µs while
// anything runs, for an eighth of all that gantry computes, and with 2 ms of slack for a tenth still. The watcher's own
// thread has no slack where it may be ahead of all others.
func hurry() {
	thread.Others(func(tid int) { // threads to come inherit both
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, -10)
		_ = os.WriteFile("/proc/"+strconv.Itoa(tid)+"/timerslack_ns", strconv.AppendInt(nil, int64(slack), 10), 0)
	})
}

const slack = 10 * time.Millisecond

// Watch follows a container's group, which Docker has made already or is about to make; its parent must be there. At
// the end it reads the wanted counters: the fewer, the surer.
func (w *Watcher) Watch(key int64, group string, want Set) error {
	if w == nil {
		return nil
	}
	e := &watch{key: key, group: group, want: want, dir: w.tree.watched(group), wd: -1, pidfd: -1, last: -1,
		ends: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("watching control groups: closed")
	}
	if w.keys[key] != nil {
		return fmt.Errorf("watching control group %s: key %d is in use", group, key)
	}
	if w.inotify >= 0 {
		wd, err := unix.InotifyAddWatch(w.inotify, filepath.Dir(e.dir), unix.IN_CREATE|unix.IN_ONLYDIR)
		if err != nil {
			return fmt.Errorf("watching control group %s: %w", group, err)
		}
		e.wd = int32(wd)
		w.wds[e.wd] = append(w.wds[e.wd], e)
	} else {
		e.next = time.Now().Add(probe)
		w.nudge()
	}
	w.keys[key] = e
	var st unix.Stat_t
	if unix.Stat(e.dir, &st) == nil { // adopted
		w.found(e, time.Now())
		w.nudge()
	}
	return nil
}

// of calls f with a watch, if there is one. A nil Watcher watches nothing.
func (w *Watcher) of(key int64, f func(e *watch)) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.keys[key]; e != nil {
		f(e)
	}
}

// Final ends the watch and returns the last reading of the group.
func (w *Watcher) Final(key int64) (f Final) {
	w.of(key, func(e *watch) {
		if e.exact == 0 { // the thread has not come to it yet, or the group's end was missed
			if e.files == nil { // nor to its beginning
				e.files = w.tree.files(e.group)
			}
			if live, there := w.procs(e); live < 0 && there {
				w.end(e, e.want)
			} else if live >= 0 { // its first process has ended, and the kernel ends this one, too
				unix.Close(live)
				w.end(e, e.want&OOM)
			}
		}
		f = Final{Counters: e.got, Limits: e.limits, Exact: e.exact, Ended: e.over}
		f.Status, f.Told = e.status()
		w.forget(e)
	})
	return f
}

// status is how the last process ended.
func (e *watch) status() (s unix.WaitStatus, told bool) {
	if e.last < 0 {
		return 0, false
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT} // the status lasts as long as the pidfd
	if unix.IoctlPidfdInfo(int(e.last), &info) != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return 0, false
	}
	return unix.WaitStatus(info.Exit_code), true
}

// Ends returns a channel that hears each time the last process of a group that is watched is seen to end; nil of a
// group that is not. It may be early, while runc changes its own process.
func (w *Watcher) Ends(key int64) (ends <-chan struct{}) {
	w.of(key, func(e *watch) { ends = e.ends })
	return ends
}

// Status is how the last process of a group that is watched ended; see Final.
func (w *Watcher) Status(key int64) (s unix.WaitStatus, told bool) {
	w.of(key, func(e *watch) {
		if !e.over.IsZero() {
			s, told = e.status()
		}
	})
	return s, told
}

// Over reports whether the last process of a group that is watched was seen to end.
func (w *Watcher) Over(key int64) (over bool) {
	w.of(key, func(e *watch) { over = !e.over.IsZero() })
	return over
}

// Close stops the watcher.
func (w *Watcher) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.nudge()
	<-w.done
}

func (w *Watcher) release() {
	for _, fd := range []int{w.epoll, w.inotify, w.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	for fd := range w.fds {
		unix.Close(int(fd))
	}
	for _, e := range w.keys {
		e.closeLast()
	}
}

func (w *Watcher) nudge() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(w.wake, one[:])
}

func (w *Watcher) loop() {
	// Ahead of all others where that is allowed: it sleeps nearly always, works for some 100 µs, and being a few
	// milliseconds late is being too late.
	ahead := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0) == nil
	w.mu.Lock() // groups may be watched already
	w.ahead = ahead
	w.mu.Unlock()
	defer close(w.done)
	defer w.release()
	events := make([]unix.EpollEvent, 64)
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.EpollWait(w.epoll, events, w.timeout())
		if err != nil && err != unix.EINTR {
			return
		}
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			return
		}
		now := time.Now()
		for _, ev := range events[:max(n, 0)] {
			switch ev.Fd {
			case int32(w.wake):
				unix.Read(w.wake, buf[:8])
			case int32(w.inotify):
				w.created(buf, now)
			default:
				if e := w.fds[ev.Fd]; e != nil {
					w.ended(e, now)
				}
			}
		}
		samples := w.timers(now)
		w.mu.Unlock()
		for _, s := range samples {
			w.sample(s)
		}
	}
}

// timeout is the time to the next timer, in milliseconds, -1 if there is none.
func (w *Watcher) timeout() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next time.Time
	for _, e := range w.keys {
		if !e.next.IsZero() && (next.IsZero() || e.next.Before(next)) {
			next = e.next
		}
	}
	if next.IsZero() {
		return -1
	}
	return max(0, int((time.Until(next)+time.Millisecond-1)/time.Millisecond))
}

// created reads inotify events: groups that were made.
func (w *Watcher) created(buf []byte, now time.Time) {
	for {
		n, err := unix.Read(w.inotify, buf)
		if err != nil || n < unix.SizeofInotifyEvent {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			ev := (*unix.InotifyEvent)(unsafe.Pointer(&b[0]))
			name := b[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+int(ev.Len)]
			b = b[unix.SizeofInotifyEvent+int(ev.Len):]
			if ev.Mask&unix.IN_IGNORED != 0 {
				continue
			}
			if len(name) == 0 { // a list of processes was written to
				for _, e := range slices.Clone(w.wds[ev.Wd]) { // the first of two of one group leaves the list
					w.joined(e, now)
				}
				continue
			}
			name = bytes.TrimRight(name, "\x00")
			for _, e := range w.wds[ev.Wd] {
				if filepath.Base(e.dir) == string(name) {
					w.found(e, now)
					break
				}
			}
		}
	}
}

// found begins to follow a group that exists now: runc writes its first process to the list of processes some
// milliseconds later, if it has not done so already.
func (w *Watcher) found(e *watch, now time.Time) {
	w.unwatch(e)
	e.files = w.tree.files(e.group)
	e.every, e.next = w.first, now.Add(probe)
	if wd, err := unix.InotifyAddWatch(w.inotify, e.dir+"/cgroup.procs", unix.IN_MODIFY); err == nil {
		e.wd = int32(wd)
		w.wds[e.wd] = append(w.wds[e.wd], e)
	}
	w.joined(e, now)
}

// joined begins to follow the processes of a group, if there are any.
func (w *Watcher) joined(e *watch, now time.Time) bool {
	if !w.follow(e) {
		return false
	}
	w.unwatch(e)
	e.exact, e.over = 0, time.Time{}
	if e.next = now.Add(e.every); !w.ahead { // limits are read soon: at the end they may be gone
		e.next = now.Add(probe)
	}
	return true
}

// unwatch ends the wait for the group's creation or its first process.
func (w *Watcher) unwatch(e *watch) {
	if e.wd < 0 {
		return
	}
	w.wds[e.wd] = slices.DeleteFunc(w.wds[e.wd], func(o *watch) bool { return o == e })
	if len(w.wds[e.wd]) == 0 {
		delete(w.wds, e.wd)
		unix.InotifyRmWatch(w.inotify, uint32(e.wd))
	}
	e.wd = -1
}

// follow looks for a process that lives in the group and waits for its end.
func (w *Watcher) follow(e *watch) bool {
	w.unfollow(e)
	fd, _ := w.procs(e)
	if fd < 0 {
		return false
	}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN,
		Fd: int32(fd)}); err != nil {
		unix.Close(fd)
		return false
	}
	e.closeLast()
	e.pidfd = int32(fd)
	w.fds[e.pidfd] = e
	return true
}

// closeLast gives up the last process.
func (e *watch) closeLast() {
	if e.last >= 0 {
		unix.Close(int(e.last))
		e.last = -1
	}
}

func (w *Watcher) unfollow(e *watch) {
	if e.pidfd >= 0 {
		delete(w.fds, e.pidfd)
		unix.Close(int(e.pidfd)) // takes it out of epoll, too
		e.pidfd = -1
	}
}

// procs returns a pidfd of a process that lives in the group, -1 if none does, and whether the group exists.
func (w *Watcher) procs(e *watch) (pidfd int, there bool) {
	var buf [4096]byte // the first pids, which are the lowest, are enough: the container's first process is among them
	if e.files == nil {
		return -1, false
	}
	b, ok := slurp(e.files.dir("blkio"), "cgroup.procs", buf[:])
	if !ok {
		return -1, false
	}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if b = rest; !whole {
			break
		}
		pid, err := strconv.Atoi(string(line))
		if err != nil || pid <= 0 {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(p, 0); err == nil && n == 0 {
			return fd, true
		}
		unix.Close(fd) // has ended, was not reaped yet
	}
	return -1, true
}

// ended handles the end of the process that was followed.
func (w *Watcher) ended(e *watch, now time.Time) {
	last := e.pidfd
	e.pidfd = -1
	delete(w.fds, last)
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, int(last), nil)
	if w.follow(e) {
		unix.Close(int(last))
		return
	}
	e.last = last
	w.end(e, e.want)
	e.over = now
	select {
	case e.ends <- struct{}{}:
	default:
	}
	// Final is about to be called; but a process may still join, if runc only changed its own.
	e.next, e.probes = now.Add(5*probe), 5
}

// end takes the last reading. Of a group that vanishes meanwhile it gives only some of the wanted counters.
func (w *Watcher) end(e *watch, want Set) {
	c := e.files.counters(want)
	if c.Got == 0 {
		return
	}
	e.got, e.exact = e.got.Max(c), c.Got
	w.readLimits(e)
}

// probe is how soon a group without a process is looked at, in case inotify missed one; the interval doubles.
const probe = 25 * time.Millisecond

// timers takes the samples that are due and looks again where no process was found.
func (w *Watcher) timers(now time.Time) []Sample {
	var samples []Sample
	for _, e := range w.keys {
		if e.next.IsZero() || e.next.After(now) {
			continue
		}
		if e.pidfd < 0 { // no process yet, or none any more
			var st unix.Stat_t
			there := unix.Stat(e.dir, &st) == nil
			if e.files == nil { // without inotify
				if e.next = now.Add(probe); there {
					w.found(e, now)
				}
				continue
			}
			if w.joined(e, now) {
				continue
			}
			if !there {
				e.next = time.Time{}
				continue
			}
			e.probes++
			e.next = now.Add(min(probe<<min(e.probes/2, 8), 250*time.Millisecond))
			continue
		}
		if !w.ahead && e.limits == (Limits{}) && e.looks < 3 { // a group may have none
			e.looks++
			w.readLimits(e)
			e.next = now.Add(e.every)
			continue
		}
		if c := e.files.counters(Everything); c.Got != 0 {
			e.got = e.got.Max(c)
			if e.looks++; e.looks <= 3 { // runc may be slow to set them
				w.readLimits(e)
			}
			if w.sample != nil {
				samples = append(samples, Sample{e.key, now, c})
			}
		}
		e.every = min(2*e.every, w.last)
		e.next = now.Add(e.every)
	}
	return samples
}

// readLimits reads back the limits of the group. Early on runc may not have set all of them, and at the end some may be
// gone.
func (w *Watcher) readLimits(e *watch) {
	is, was := e.files.limits(w.device), e.limits
	if is.CPUPeriod == 0 { // the two belong together
		is.CPUQuota = 0
	}
	e.limits = Limits{cmp.Or(is.CPUQuota, was.CPUQuota), cmp.Or(is.CPUPeriod, was.CPUPeriod),
		cmp.Or(is.Memory, was.Memory), cmp.Or(is.MemorySwap, was.MemorySwap), cmp.Or(is.PIDs, was.PIDs),
		cmp.Or(is.ReadBps, was.ReadBps), cmp.Or(is.WriteBps, was.WriteBps), cmp.Or(is.ReadIOPS, was.ReadIOPS),
		cmp.Or(is.WriteIOPS, was.WriteIOPS), cmp.Or(is.Device, was.Device)}
}

func (w *Watcher) forget(e *watch) {
	w.unwatch(e)
	w.unfollow(e)
	e.closeLast()
	if e.files != nil {
		e.files.close()
	}
	delete(w.keys, e.key)
}
