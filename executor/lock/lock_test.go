package lock_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/executor/lock"
)

// OfRun never overlooks a gantry, and never turns one away, while many other locks come and go.
func TestLocksAreSeenWhileOtherLocksComeAndGo(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	held, free := filepath.Join(dir, "held"), filepath.Join(dir, "free")
	for _, d := range []string{held, free} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := lock.Take(open("held/lock")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 100 {
		other, err := os.CreateTemp(dir, "other")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = unix.Flock(int(other.Fd()), unix.LOCK_EX)
				_ = unix.Flock(int(other.Fd()), unix.LOCK_UN)
				_ = lock.OfRun(free)
			}
		})
	}
	for range 100 {
		if !lock.OfRun(held) {
			t.Fatal("a lock was overlooked")
		}
		mine, err := os.Open(free)
		if err == nil {
			err = lock.Take(mine)
			mine.Close()
		}
		if err != nil {
			t.Fatalf("turned away: %v", err)
		}
	}
	close(stop)
	others.Wait()
	if err := lock.Take(open("held/lock")); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a lock that another has: %v", err)
	}
}
