package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gantry/executor/emulate"
)

const (
	blockBytes = 4096 // direct I/O is in whole blocks; no common device has larger ones
	// buffered output is flushed each time this number of bytes is written, by this task, so that its limits count it
	flushBytes = 4 << 20
)

// look sums up the bytes to read and to write. A missing input ends the task before it does anything.
func (t *task) look() {
	for i, f := range t.spec.Inputs {
		t.report.Read.Asked += max(f.Bytes, 0)
		if i < t.before.Inputs {
			continue
		}
		n, err := sizeOf(f.Path)
		if err != nil {
			t.missf("input %s: %v", f.Path, bare(err))
			return
		}
		t.toRead += n
	}
	for i, f := range t.spec.Outputs {
		t.report.Write.Asked += f.Bytes
		if i >= t.before.Outputs {
			t.toWrite.Add(f.Bytes)
		}
	}
}

// bare is an error without the path, which messages have.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// sizeOf returns the bytes of a file, or of all files in a directory.
func sizeOf(path string) (total int64, err error) {
	err = eachFile(path, func(path string) error {
		st, err := os.Stat(path)
		if err == nil {
			total += st.Size()
		}
		return err
	})
	return total, err
}

// eachFile calls f with a file, or with all files in a directory.
func eachFile(path string, f func(path string) error) error {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return f(path)
	}
	return filepath.WalkDir(path+"/", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return f(path)
	})
}

// due lets the work wait until a part of it is due, and reports whether it is to continue.
func (t *task) due(part, all int64) bool {
	if all == 0 {
		return !t.halts()
	}
	due := t.pace.due(min(1, float64(part)/float64(all)))
	for !t.halts() {
		if t.pace.now() >= due {
			return true
		}
		t.pace.pause(due)
	}
	return false
}

// errHalted ends reading or writing a file in its midst.
var errHalted = errors.New("halted")

// read reads every input to its end.
func (t *task) read() {
	defer t.allRead.Store(true)
	for i, f := range t.spec.Inputs {
		if i < t.before.Inputs {
			continue
		}
		n, err := t.readFile(f.Path)
		t.report.Read.Achieved += n
		switch {
		case err == errHalted:
			return
		case err != nil:
			t.missf("input %s: %v", f.Path, bare(err))
		case f.Bytes >= 0 && n != f.Bytes:
			t.missf("input %s: asked %d bytes, there were %d", f.Path, f.Bytes, n)
		default:
			t.progress.whole(&t.progress.files.inputs, &t.progress.files.read, n)
		}
	}
}

// readFile reads a file, or all files in a directory.
func (t *task) readFile(path string) (total int64, err error) {
	err = eachFile(path, func(path string) error {
		n, err := t.readOne(path)
		total += n
		return err
	})
	return total, err
}

func (t *task) readOne(path string) (total int64, err error) {
	in, direct, err := t.open(path, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if st, err := in.Stat(); err != nil {
		return 0, err
	} else if !st.Mode().IsRegular() {
		return 0, errors.New("not a regular file")
	}
	if !direct {
		// Advice only: pages that others use or have to write stay.
		_ = unix.Fadvise(int(in.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	for {
		if !t.due(t.hasRead, t.toRead) {
			return total, errHalted
		}
		start := time.Now()
		n, err := in.Read(t.reading)
		t.report.Phases.ReadNanos += int64(time.Since(start))
		total, t.hasRead = total+int64(n), t.hasRead+int64(n)
		switch {
		case err == io.EOF:
			return total, nil
		case errors.Is(err, unix.EINVAL) && direct && total == 0:
			direct = false
			err = clearDirect(in)
		}
		if err != nil {
			return total, err
		}
	}
}

// write writes every output, then makes their directories durable.
func (t *task) write() {
	dirs := map[string]bool{}
	t.writes = t.toWrite.Load()
	defer t.toWrite.Store(0)
	for i, f := range t.spec.Outputs {
		dirs[filepath.Dir(f.Path)] = true
		if i < t.before.Outputs {
			if st, err := os.Lstat(f.Path); err != nil || st.Size() != f.Bytes {
				t.missf("output %s: an earlier attempt wrote it, and it is not here as it was", f.Path)
			}
			continue
		}
		n, err := t.writeFile(f)
		t.report.Write.Achieved += n
		if err == errHalted {
			return
		}
		if err == nil && n != f.Bytes {
			err = io.ErrShortWrite
		}
		if err != nil {
			t.missf("output %s: asked %d bytes, wrote %d: %v", f.Path, f.Bytes, n, bare(err))
		} else {
			t.progress.whole(&t.progress.files.outputs, &t.progress.files.written, n)
		}
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			t.missf("output directory %s: sync: %v", dir, err)
		}
	}
}

func (t *task) writeFile(f emulate.File) (int64, error) {
	due := t.due(t.hasWritten+min(f.Bytes, bufferBytes), t.writes)
	isInput := slices.ContainsFunc(t.spec.Inputs, func(in emulate.File) bool { // which is to be read first
		return filepath.Clean(in.Path) == filepath.Clean(f.Path)
	})
	for due && isInput && !t.allRead.Load() {
		t.pace.pause(t.pace.now() + slice)
		due = !t.halts()
	}
	if !due {
		return 0, errHalted
	}
	defer func(start time.Time, paused time.Duration) {
		t.report.Phases.WriteNanos += int64(time.Since(start) - (t.paused - paused))
	}(time.Now(), t.paused)
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o777); err != nil {
		return 0, err
	}
	// A file of that name may be an input, and linked to others: outputs are always new files.
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	out, direct, err := t.open(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return 0, err
	}
	n, err := t.fill(out, direct, f)
	if err == nil {
		err = synced(out.Sync())
	}
	// Some file systems report a full disk only here.
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// synced says of an error that it was one of making data durable.
func synced(err error) error {
	if err != nil {
		err = fmt.Errorf("sync: %w", bare(err))
	}
	return err
}

// fill writes the content. With direct I/O whole blocks go past the cache; the rest of less than a block follows
// through it.
func (t *task) fill(out *os.File, direct bool, f emulate.File) (written int64, err error) {
	h := fnv.New64a()
	h.Write([]byte(f.Path))
	random := generator(h.Sum64() ^ t.spec.Seed*0x9e3779b97f4a7c15)
	var dirty int64
	for written < f.Bytes {
		size := min(f.Bytes-written, int64(len(t.writing)))
		start := time.Now()
		if !t.due(t.hasWritten+size, t.writes) {
			return written, errHalted
		}
		t.paused += time.Since(start)
		if direct && size >= blockBytes {
			size -= size % blockBytes
		} else if direct {
			direct = false
			if err := clearDirect(out); err != nil {
				return written, err
			}
		}
		random.fill(t.writing[:(size+7)/8*8])
		n, err := out.Write(t.writing[:size])
		if errors.Is(err, unix.EINVAL) && direct {
			direct = false
			if err = clearDirect(out); err == nil {
				var rest int
				rest, err = out.Write(t.writing[n:size])
				n += rest
			}
		}
		written, dirty, t.hasWritten = written+int64(n), dirty+int64(n), t.hasWritten+int64(n)
		t.toWrite.Add(-int64(n))
		if err != nil {
			return written, err
		}
		if !direct && dirty >= flushBytes {
			if err := synced(unix.Fdatasync(int(out.Fd()))); err != nil {
				return written, err
			}
			// So that the cache is not charged to the task's memory.
			_ = unix.Fadvise(int(out.Fd()), 0, 0, unix.FADV_DONTNEED)
			dirty = 0
		}
	}
	return written, nil
}

// open opens with O_DIRECT where that is asked for and the file system has it.
func (t *task) open(path string, flags int) (f *os.File, direct bool, err error) {
	if t.spec.Direct {
		f, err = os.OpenFile(path, flags|unix.O_DIRECT, 0o666)
		if !errors.Is(err, unix.EINVAL) {
			return f, err == nil, err
		}
		// A file system without direct I/O may have created the file before it found out.
		flags &^= os.O_EXCL
	}
	f, err = os.OpenFile(path, flags, 0o666)
	return f, false, err
}

func clearDirect(f *os.File) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// generator makes bytes that do not compress, at gigabytes per second (Marsaglia 2003, xorshift64).
type generator uint64

// fill fills b, whose length is a multiple of 8.
func (g *generator) fill(b []byte) {
	x := uint64(*g)
	if x == 0 {
		x = 1 // the one state it never leaves
	}
	for i, words := 0, unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8); i < len(words); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		words[i] = x
	}
	*g = generator(x)
}
