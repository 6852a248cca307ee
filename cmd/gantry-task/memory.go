package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor/emulate"
)

const memoryPercent = 5 // memory short by more is a miss

const bufferBytes = emulate.IOBytes // of the buffer for I/O

// takeMemory maps and touches the memory asked for beyond the emulator's own resident set. The task holds it until the
// work is done.
func (t *task) takeMemory() {
	for _, b := range []struct {
		buffer *[]byte
		files  []emulate.File
	}{{&t.reading, t.spec.Inputs}, {&t.writing, t.spec.Outputs}} {
		if len(b.files) == 0 {
			continue
		}
		var err error
		if *b.buffer, err = t.mapped(bufferBytes); err != nil {
			t.missf("memory: a buffer of %d bytes: %v", bufferBytes, err)
			return
		}
	}
	asked := t.spec.MemoryBytes
	t.report.Memory.Asked = asked
	if asked == 0 {
		return
	}
	own, err := resident()
	if err != nil {
		t.missf("memory: own size: %v", err)
		return
	}
	t.report.OwnMemoryBytes = own
	if asked <= own {
		return
	}
	begun := time.Now()
	if t.held, err = t.mapped(asked - own); err != nil {
		t.missf("memory: asked %d bytes: %v", asked, err)
	}
	// Giving it back takes the kernel up to a quarter of that, which is part of the run.
	t.giving = min(time.Since(begun)/4, t.pace.run/10)
}

// mapped returns n bytes of anonymous memory, every page written to: memory that is only mapped costs nothing.
func (t *task) mapped(n int64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	for i, page := 0, os.Getpagesize(); i < len(b); i += page {
		b[i] = byte(i/page) | 1
		if i/page%1024 == 0 { // much memory takes longer than the pace expects without a look
			t.pace.now()
		}
	}
	return b, nil
}

// accountMemory compares the memory held at the end with the memory asked for.
func (t *task) accountMemory() {
	asked := t.spec.MemoryBytes
	if asked == 0 {
		return
	}
	got, err := resident()
	if err != nil {
		t.missf("memory: what is held: %v", err)
		return
	}
	t.report.Memory.Achieved = got
	if len(t.report.Misses) == 0 && got < asked-asked*memoryPercent/100 {
		t.missf("memory: asked %d bytes, held %d", asked, got)
	}
}

// resident returns the memory of this process in bytes, including swapped-out pages. The rollup is exact; the counters
// behind /proc/self/status are off by some pages per processor.
func resident() (int64, error) {
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0, err
	}
	var kib int64
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "Rss:" || f[0] == "Swap:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, err
			}
			kib += n
		}
	}
	return kib << 10, nil
}
