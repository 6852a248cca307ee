package reuse

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gantry/executor"
)

// A task may see more of this host than its files: mounts and secrets. Its results then have another identity in the
// log than the task: a digest of that of the task, of its mounts and of its secrets. A mount counts by its contents, or
// by its state alone (names, sizes, times and inodes) where nothing was hashed.

// Bounds of a mount: with more files it is not compared, with more than the others it is known by its state alone.
const (
	mostFiles       = 20_000
	mostHashedFiles = 1000
	mostHashedBytes = 1 << 30
)

// secretsDir is where programs find secrets.
const secretsDir = "/run/secrets/"

// sees reports whether a task sees more of this host than its files.
func (k *Keeper) sees(spec *executor.TaskSpec) bool {
	return len(spec.Command) > 0 && len(spec.Mounts)+len(k.Secrets) > 0
}

// seen are two identities of the results of a task that sees more of this host than its files: by contents and by
// states.
type seen struct {
	content, state Sum
	mounts         []state
}

// look looks at the mounts and secrets of a task; it reads contents only if hash is set. If they cannot be compared,
// why says why.
func (k *Keeper) look(ctx context.Context, spec *executor.TaskSpec, hash bool) (s seen, why string) {
	identity := spec.Identity()
	content, all := sha256.New(), sha256.New()
	add := func(c, s Sum) { content.Write(c[:]); all.Write(s[:]) }
	add(identity, identity)
	for _, text := range spec.Mounts {
		m := executor.ParseMount(text)
		switch {
		case m.InPlace:
			return s, "it works in " + m.From + ", a directory of this host"
		case strings.HasPrefix(m.To, secretsDir):
			return s, "secrets of submissions are not kept to be compared"
		case k.Afar:
			return s, "its mount " + m.From + " is of other hosts"
		}
		st, err := stateOf(m.From)
		if err != nil {
			return s, fmt.Sprintf("its mount %s cannot be compared: %v", m.From, err)
		}
		sum := st.sum
		if hash && st.files <= mostHashedFiles && st.size <= mostHashedBytes {
			if sum, err = k.contentOf(ctx, st); err != nil {
				return s, fmt.Sprintf("its mount %s cannot be compared: %v", m.From, err)
			}
		}
		add(sum, st.sum)
		s.mounts = append(s.mounts, st)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Secrets)) {
		add(sha256.Sum256([]byte(name)), sha256.Sum256([]byte(name)))
		add(k.Secrets[name], k.Secrets[name])
	}
	s.content, s.state = Sum(content.Sum(nil)), Sum(all.Sum(nil))
	return s, ""
}

// unknown is the identity of results that are never reused.
func unknown(spec *executor.TaskSpec) Sum {
	identity := spec.Identity()
	return sha256.Sum256(append([]byte("unknown "), identity[:]...))
}

// known returns the identity of the results of an attempt that began at an instant.
func (k *Keeper) known(ctx context.Context, spec *executor.TaskSpec, begun time.Time) Sum {
	s, why := k.look(ctx, spec, k.Hash)
	changed := func(m state) bool { return !m.changed.Add(granularity).Before(begun) }
	switch {
	case why != "" || slices.ContainsFunc(s.mounts, changed):
		return unknown(spec)
	case k.Hash:
		return s.content
	}
	return s.state
}

// changed names a mount that changed since a run began that had completed the same task.
func (s *seen) changed(run string, began time.Time) string {
	for _, m := range s.mounts {
		if m.changed.After(began) {
			return fmt.Sprintf("compared with run %s: its mount %s changed at %s", run, m.path,
				m.changed.Format(time.DateTime))
		}
	}
	seen := "mounts or secrets"
	if len(s.mounts) == 0 {
		seen = "secrets"
	}
	return fmt.Sprintf("compared with run %s: its %s changed, or were not known then", run, seen)
}

// state is how a mount stands.
type state struct {
	path    string
	sum     Sum
	modes   Sum // of names and modes alone
	files   int
	size    int64
	changed time.Time // when anything in it changed last
}

// stateOf looks at a file, or at a directory and all in it.
func stateOf(path string) (s state, err error) {
	s.path = path
	at, err := filepath.EvalSymlinks(path)
	if err != nil {
		return s, err
	}
	digest, modes := sha256.New(), sha256.New()
	err = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		if s.files++; s.files > mostFiles {
			return fmt.Errorf("it has more than %d files", mostFiles)
		}
		sys := st.Sys().(*syscall.Stat_t)
		if at := time.Unix(0, changed(sys)); at.After(s.changed) {
			s.changed = at
		}
		name, err := filepath.Rel(at, p)
		fmt.Fprintf(digest, "%d %d %d %d\n", st.ModTime().UnixNano(), changed(sys), sys.Ino, uint64(sys.Dev))
		fmt.Fprintf(io.MultiWriter(digest, modes), "%q %o\n", name, st.Mode())
		switch {
		case err != nil || st.IsDir():
			return err
		case st.Mode().Type() == fs.ModeSymlink:
			return addLink(digest, p)
		case !st.Mode().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", p)
		}
		s.size += st.Size()
		fmt.Fprintf(digest, "%d\n", st.Size())
		return nil
	})
	s.sum, s.modes = Sum(digest.Sum(nil)), Sum(modes.Sum(nil))
	return s, err
}

// contentOf hashes all files of a mount, once for each of its states.
func (k *Keeper) contentOf(ctx context.Context, s state) (Sum, error) {
	if sum, ok := k.contents.Load(s.sum); ok {
		return sum.(Sum), nil
	}
	sum, err := k.outside(ctx, s.path)
	sum = sha256.Sum256(append(sum[:], s.modes[:]...))
	if err == nil && time.Since(s.changed) > granularity {
		if now, e := stateOf(s.path); e == nil && now.sum == s.sum {
			k.contents.Store(s.sum, sum)
		}
	}
	return sum, err
}

// SecretSums returns sums of values that can be compared. They need a key, which is in a file that its owner alone can
// read, so that other readers of the log cannot try out values. The file is made if it is not there.
func SecretSums(keyFile string, own func(path string), values map[string]string) (map[string]Sum, error) {
	key, err := readKey(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(keyFile, own); err == nil {
			key, err = readKey(keyFile)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key of secrets: %w", err)
	}
	sums := map[string]Sum{}
	for name, value := range values {
		mac := hmac.New(sha256.New, key)
		mac.Write(binary.AppendUvarint(nil, uint64(len(name))))
		mac.Write([]byte(name + value))
		sums[name] = Sum(mac.Sum(nil))
	}
	return sums, nil
}

const keyBytes = 32

func readKey(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 || st.Size() != keyBytes {
		return nil, fmt.Errorf("%s is not a file of %d bytes that its owner alone can read: delete it", path, keyBytes)
	}
	key := make([]byte, keyBytes)
	_, err = io.ReadFull(f, key)
	return key, err
}

// makeKey makes the file of a key, whole or not at all; own gives it to its owner.
func makeKey(path string, own func(path string)) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	own(f.Name())
	key := make([]byte, keyBytes)
	rand.Read(key)
	_, err = f.Write(key)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
