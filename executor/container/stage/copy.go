package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/trace/shown"
)

// Copy copies a file between nodes, over the link between their groups. It returns how many bytes were copied; none if
// the file was there.
func (s *Area) Copy(ctx context.Context, f *executor.FileSpec, w *executor.WorkflowSpec, from,
	to planner.NodeID) (unit.Bytes, error) {
	if _, err := localName(f.Name); err != nil {
		return 0, err
	}
	copied := unit.Bytes(0)
	err := s.As(w, func() (err error) {
		copied, err = s.copyAll(ctx, w, []*executor.FileSpec{f}, map[planner.FileID]planner.NodeID{f.ID: from}, to)
		return err
	})
	return copied, err
}

// copyAll copies those of the files that are to come from other nodes.
func (s *Area) copyAll(ctx context.Context, w *executor.WorkflowSpec, files []*executor.FileSpec,
	from map[planner.FileID]planner.NodeID, to planner.NodeID) (copied unit.Bytes, err error) {
	var all []arrival
	for _, f := range files {
		n, ok := from[f.ID]
		if !ok {
			continue
		}
		if err := s.bring(ctx, w, n, f); err != nil { // it may be the first to ask
			return 0, err
		}
		src, p := s.Path(n, w, f), s.platform
		all = append(all, arrival{at: s.Path(to, w, f), logged: true,
			what: fmt.Sprintf("copy %s from node %s to node %s", shown.Quote(f.Name), p.Nodes[n].Name,
				p.Nodes[to].Name),
			make: func(tmp string, _ *folder) (bool, error) {
				rate, latency := s.link(n, to)
				if err := Sleep(ctx, latency); err != nil {
					return true, err
				}
				err := copyTree(ctx, tmp, src, 0o644, rate, s.OwnerOf(w))
				if size, e := sizeOf(tmp); e == nil {
					copied += size
				}
				return true, err
			}})
	}
	err = s.arriveAll(ctx, w, 1, all...)
	return copied, err
}

// link is the bandwidth between two nodes for one copy, 0 if that is unlimited, and the latency.
func (s *Area) link(from, to planner.NodeID) (unit.BytesPerSecond, time.Duration) {
	return s.platform.Link(s.platform.Nodes[from].Group, s.platform.Nodes[to].Group)
}

// opener opens a file and describes it.
type opener func(path string) (*os.File, fs.FileInfo, error)

// extent is a part of a regular file: the bytes from one offset up to another, which is 0 for its end.
type extent struct {
	path     string
	from, to int64
	open     opener // nil: openOwn
}

// copyWhole makes a file of parts of others, at most rate bytes per second if that is not 0.
func copyWhole(ctx context.Context, to string, rate unit.BytesPerSecond, mode fs.FileMode, from ...extent) error {
	var out *os.File
	for _, e := range from {
		if e.open == nil {
			e.open = openOwn
		}
		in, st, err := e.open(e.path)
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", e.path)
		}
		if err == nil && out == nil { // executable files stay so
			out, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|Readable(st.Mode())&0o111)
		}
		if err == nil {
			err = pourExtent(ctx, out, in, st.Size(), e, rate)
		}
		in.Close()
		if err != nil {
			out.Close()
			return err
		}
	}
	return out.Close()
}

// pourExtent appends a part of a file of that size. Its holes stay holes.
func pourExtent(ctx context.Context, out, in *os.File, end int64, e extent, rate unit.BytesPerSecond) error {
	if end == 0 { // files of the kernel's have no size, and yet something to read
		_, err := pour(ctx, out, in, math.MaxInt64, time.Now(), 0, rate)
		return err
	}
	if e.to > 0 {
		end = min(end, e.to)
	}
	if rate == 0 && end-e.from < smallFile { // holes are no matter
		buf := smallFiles.Get().(*[smallFile]byte)
		defer smallFiles.Put(buf)
		n, err := in.ReadAt(buf[:max(0, end-e.from)], e.from)
		if err == nil || err == io.EOF {
			_, err = out.Write(buf[:n])
		}
		return err
	}
	base, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	begun := time.Now()
	for at := e.from; at < end; {
		data, hole := nextData(in, at, end)
		if data > at { // a hole takes the time of its size on the link, as gantry plans with sizes
			if err := keepRate(ctx, begun, data-e.from, rate); err != nil {
				return err
			}
		}
		_, outErr := out.Seek(base+data-e.from, io.SeekStart)
		_, inErr := in.Seek(data, io.SeekStart)
		if err := errors.Join(outErr, inErr); err != nil {
			return err
		}
		n, err := pour(ctx, out, in, hole-data, begun, data-e.from, rate)
		if err != nil {
			return err
		}
		if at = hole; n < hole-data { // it became shorter meanwhile
			end = data + n
		}
	}
	return out.Truncate(base + max(0, end-e.from))
}

// smallFile is the size up to which a file is copied through memory: the kernel takes more calls for a few bytes.
const smallFile = 64 << 10

var smallFiles = sync.Pool{New: func() any { return new([smallFile]byte) }}

// nextData returns where the first data of a file lies from an offset on, and where that ends; both are end if there is
// none before it. A file system that does not know holes has data everywhere.
func nextData(f *os.File, at, end int64) (data, hole int64) {
	data, err := f.Seek(at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return end, end
	} else if err != nil {
		return at, end
	}
	if hole, err = f.Seek(data, unix.SEEK_HOLE); err != nil {
		hole = end
	}
	return min(data, end), min(hole, end)
}

// piece is how many bytes are copied at once: a kill does not wait for more.
const piece = 8 << 20

// pour copies length bytes at a rate, in pieces small enough that the rate is smooth. Before it, this many bytes were
// done since begun. It returns how many bytes it copied: less if the file ends before. Files, not readers: the kernel
// can copy from one to the other.
func pour(ctx context.Context, out, in *os.File, length int64, begun time.Time, before int64,
	rate unit.BytesPerSecond) (done int64, err error) {
	step := int64(piece)
	if rate > 0 {
		step = min(step, max(64<<10, int64(rate)/20))
	}
	for done < length {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		n, err := io.CopyN(out, in, min(step, length-done))
		done += n
		if rateErr := keepRate(ctx, begun, before+done, rate); rateErr != nil {
			return done, rateErr
		}
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// keepRate waits until the bytes may have been copied since begun; a rate of 0 is none.
func keepRate(ctx context.Context, begun time.Time, bytes int64, rate unit.BytesPerSecond) error {
	if rate <= 0 {
		return nil
	}
	return Sleep(ctx, time.Until(begun.Add(time.Duration(float64(bytes)/float64(rate)*1e9))))
}

// Sleep waits for d, or until ctx ends, whose error it returns.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// makeUp writes content of the size that the trace gives, which does not compress.
func makeUp(ctx context.Context, to string, f *executor.FileSpec, seed uint64) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	content := rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, f.NodeName())))
	for left := int64(f.Size); left > 0 && err == nil; left -= piece {
		if _, err = io.CopyN(out, content, min(left, piece)); err == nil {
			err = ctx.Err()
		}
	}
	return errors.Join(err, out.Close())
}
