package live

import (
	"net"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bounded limits the connections that are open at once; further ones wait in the kernel.
type bounded struct {
	net.Listener
	slots chan struct{}
}

func (b bounded) Accept() (net.Conn, error) {
	b.slots <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &slot{Conn: c, free: sync.OnceFunc(func() { <-b.slots })}, nil
}

type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}

// limiter is a bucket of requests that fills up with time.
type limiter struct {
	most float64 // requests a second, and at once

	mu   sync.Mutex
	have float64
	at   time.Time
}

func (l *limiter) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.have = l.most
	} else {
		l.have = min(l.most, l.have+now.Sub(l.at).Seconds()*l.most)
	}
	l.at = now
	if l.have < 1 {
		return false
	}
	l.have--
	return true
}

// threadTime starts to count the CPU time of the caller on its thread, and returns the function that ends the count.
func threadTime() func() time.Duration {
	runtime.LockOSThread()
	read := func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // every Linux has it
		return time.Duration(t.Nano())
	}
	began := read()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return read() - began
	}
}
