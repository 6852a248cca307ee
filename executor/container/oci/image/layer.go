package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// blob is a layer or an archive, as a file, an engine or a registry has it.
type blob struct {
	digest digest.Digest // of the bytes that open gives; "" if nothing says
	size   int64         // of them; -1 if nothing says
	open   func(ctx context.Context) io.ReadCloser
	verify bool // also if the store has the layer
}

// maxWindow is how much memory a zstd layer may ask for.
const maxWindow = 128 << 20

// decompress reads gzip, zstd or plain bytes, whichever they are.
func decompress(r io.Reader) (plain io.ReadCloser, packed bool, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, err := in.Peek(6)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, true, damaged("gzip: %w", err)
		}
		return z, true, nil
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, true, damaged("zstd: %w", err)
		}
		return z.IOReadCloser(), true, nil
	case bytes.HasPrefix(magic, []byte("BZh")), bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		return nil, true, damaged("it is compressed with bzip2 or xz: gzip, zstd and none are known")
	}
	return io.NopCloser(in), false, nil
}

// counted counts bytes, hashes them, and keeps the first error of a reader.
type counted struct {
	io.Reader
	hash  digest.Digester
	n     int64
	limit int64 // more are an error
	over  error
	err   error
	told  func(n int64) error
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.hash.Hash().Write(b[:n])
	c.n += int64(n)
	if stop := c.told(c.n); err == nil {
		err = stop
	}
	if err == nil && c.n > c.limit {
		err = c.over
	}
	if err != nil && err != io.EOF && c.err == nil {
		c.err = err
	}
	return n, err
}

// ensureLayer unpacks a layer below tmp, if the store does not have it, and if nobody else is about it.
func (s *Store) ensureLayer(ctx context.Context, tmp string, d digest.Digest, b *blob, told func(int64),
	waits func()) error {
	if _, ok := s.layerBytes(d); !ok {
		free, err := s.tryLock(string(d), true)
		if errors.Is(err, unix.EAGAIN) {
			waits()
			free, err = s.lock(ctx, string(d), true)
		}
		if err != nil {
			return err
		}
		defer free()
	}
	var err error
	if _, ok := s.layerBytes(d); !ok {
		err = s.unpackLayer(ctx, filepath.Join(tmp, d.Encoded()), d, b, told)
	} else if b.verify {
		err = s.read(ctx, b, d, math.MaxInt64, told, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("layer %s: %w", d, err)
	}
	return nil
}

// read verifies a blob while use reads its plain bytes, at most most of them: the packed ones by the digest of the
// blob, and the plain ones if d is theirs.
func (s *Store) read(ctx context.Context, b *blob, d digest.Digest, most int64, told func(int64),
	use func(io.Reader) error) error {
	in := b.open(ctx)
	defer in.Close()
	packed := &counted{Reader: in, hash: digest.Canonical.Digester(), limit: math.MaxInt64,
		told: func(n int64) error {
			if told != nil {
				told(n)
			}
			return ctx.Err()
		}}
	if b.size >= 0 {
		packed.limit, packed.over = b.size, damaged("it is longer than the %d bytes that are announced", b.size)
	}
	z, _, err := decompress(packed)
	if err != nil {
		return cause(packed, nil, err)
	}
	defer z.Close()
	plain := &counted{Reader: z, hash: digest.Canonical.Digester(), limit: most,
		over: fmt.Errorf("%w: it is larger than the %s that are free in %s", errFull, shown.Size(most), s.dir),
		told: func(int64) error { return nil }}
	if err = use(plain); err == nil {
		_, err = io.Copy(io.Discard, packed) // the rest that the decompressor has not read
	}
	if err != nil {
		return cause(packed, plain, err)
	}
	switch got := packed.hash.Digest(); {
	case b.size >= 0 && packed.n != b.size:
		return damaged("it has %d bytes, not the %d that are announced", packed.n, b.size)
	case b.digest != "" && got != b.digest:
		return damaged("its bytes have the digest %s, not %s", got, b.digest)
	}
	if got := plain.hash.Digest(); d != "" && got != d {
		return damaged("it unpacks to the digest %s, not to the one that the image names", got)
	}
	return nil
}

// unpackLayer unpacks a layer at tmp, verifies it, and gives it its place once it is on disk whole.
func (s *Store) unpackLayer(ctx context.Context, tmp string, d digest.Digest, b *blob, told func(int64)) error {
	sp, most, err := newSpace(ctx, s.dir)
	if err != nil {
		return err
	}
	fs := filepath.Join(tmp, "fs")
	if err := errors.Join(os.MkdirAll(fs, 0o700), os.Chmod(fs, 0o755)); err != nil {
		return err
	}
	var bytes int64
	err = s.read(ctx, b, d, most, told, func(r io.Reader) (err error) {
		bytes, err = unpack(r, fs, sp)
		return err
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "bytes"), fmt.Appendf(nil, "%d %s", bytes, d), 0o600); err != nil {
		return err
	}
	dir, err := os.Open(tmp)
	if err != nil {
		return err
	}
	err = syncfs(int(dir.Fd()))
	dir.Close()
	if err != nil {
		return fmt.Errorf("sync %s: %w", tmp, err)
	}
	_ = os.RemoveAll(s.layerDir(d)) // nothing, or a layer that somebody has damaged
	return os.Rename(tmp, s.layerDir(d))
}

// cause is the error that others follow from: that of reading, before that of the format it leads to.
func cause(packed, plain *counted, err error) error {
	switch {
	case packed.err != nil:
		return packed.err
	case plain != nil && plain.err != nil && !errors.Is(plain.err, errFull):
		return damaged("it is cut off or changed: %w", plain.err) // says the decompressor
	case plain != nil && plain.err != nil:
		return plain.err
	}
	return err
}
