package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
)

// DirEnv is the environment variable that names the directory of the store.
const DirEnv = "GANTRY_IMAGES"

// DefaultDir is the directory of the store that all runs of a user share: $GANTRY_IMAGES, else /var/lib/gantry/images
// of root, or gantry/images in the data directory of the user.
func DefaultDir() (string, error) {
	if dir := os.Getenv(DirEnv); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/gantry/images", nil
	}
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("directory of images: %w (set %s)", err, DirEnv)
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "gantry", "images"), nil
}

// Store keeps images below a directory that only its user can enter:
//
//	images/HEX.json   the configuration of an image, by its digest; all of its layers are there
//	layers/HEX/fs     a layer, by the beginning of the digest of its uncompressed archive; layers/HEX/bytes has the
//	                  size of its files, and the digest
//	names/HEX.json    the image that a reference stood for
//	uses/HEX.json     the images that a run needs
//	tmp/              files that are being unpacked
//	lock              see Store.lock
//
// Several processes may use a store at once. One that brings images shares the lock of changes until the uses of its
// run are noted. A process that has the lock alone may remove all of tmp, and all that no image or no run needs.
type Store struct {
	dir string

	mu      sync.Mutex
	fetched []string // IDs of images that no use notes yet
	holds   []func() // the lock that keeps them
}

// Open opens the store in a directory, and makes it. Remains of killed processes are removed. The caller closes the
// store when its run no longer needs the images.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	for _, sub := range []string{"images", "layers", "names", "uses", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("%w (set %s to another directory)", unusable(err), DirEnv)
		}
	}
	s.shorten()
	if left, _ := s.entries("tmp"); len(left) > 0 {
		s.tidy()
	}
	return s, nil
}

// unusable marks an error of the files of the store.
func unusable(err error) error { return fmt.Errorf("%w: store of images: %w", fetch.ErrUnusable, err) }

// shorten gives layers that earlier builds named by the whole digest a short name, too: such a build may be at work.
func (s *Store) shorten() {
	layers, _ := s.entries("layers")
	for _, l := range layers {
		d, file := digest.NewDigestFromEncoded(digest.SHA256, l), filepath.Join("layers", l, "bytes")
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		if d.Validate() != nil || err != nil {
			continue
		}
		if bytes, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			_ = s.put(file, fmt.Appendf(nil, "%d %s", bytes, d))
		}
		_ = os.Symlink(l, s.layerDir(d))
	}
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Close lets others remove the images that no use notes.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// release lets others remove the images that no use notes. s.mu is held.
func (s *Store) release() {
	for _, free := range s.holds {
		free()
	}
	s.fetched, s.holds = nil, nil
}

// again is the time between two attempts to take a lock that another process holds.
const again = 50 * time.Millisecond

// lock takes the lock of a name, which excludes other holders in this and other processes, or other exclusive ones
// only. The kernel frees it when the process ends. Names share one file: each has a byte of it.
func (s *Store) lock(ctx context.Context, name string, exclusive bool) (free func(), err error) {
	for {
		if free, err = s.tryLock(name, exclusive); !errors.Is(err, unix.EAGAIN) {
			return free, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

// tryLock is lock, and returns EAGAIN if another holds it.
func (s *Store) tryLock(name string, exclusive bool) (free func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unusable(err)
	}
	sum := sha256.Sum256([]byte(name))
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: int64(binary.BigEndian.Uint64(sum[:]) >> 2), Len: 1}
	if exclusive {
		l.Type = unix.F_WRLCK
	}
	if err := unix.FcntlFlock(f.Fd(), setLock, &l); err != nil {
		f.Close()
		if errors.Is(err, unix.EACCES) {
			err = unix.EAGAIN
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// changes is the name of the lock of all that is brought and removed.
const changes = "changes"

// patience is how long a removal waits for others that bring images.
const patience = 10 * time.Second

// tidy removes layers of no image: processes left them that were killed, or that failed, while they unpacked. It does
// nothing while others bring images.
func (s *Store) tidy() {
	if free, err := s.tryLock(changes, true); err == nil {
		defer free()
		_, _ = s.sweep()
	}
}

// scratch returns a new directory to unpack into. The caller has a share in the lock of changes.
func (s *Store) scratch() (string, error) {
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "")
	if err != nil {
		err = unusable(err)
	}
	return dir, err
}

// put writes a small file whole or not at all.
func (s *Store) put(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "file-")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// key is the name of the file of something that is no digest.
func key(name string) string {
	return fmt.Sprintf("%x.json", sha256.Sum256([]byte(name)))
}

// name is the image of a reference at the last look-up.
type name struct {
	Ref, ID, Digest string
}

func (s *Store) name(ref string) (n name, ok bool) {
	text, err := os.ReadFile(filepath.Join(s.dir, "names", key(ref)))
	return n, err == nil && json.Unmarshal(text, &n) == nil && n.Ref == ref
}

func (s *Store) setName(n name) error {
	if old, ok := s.name(n.Ref); ok && old == n {
		return nil
	}
	text, _ := json.Marshal(n)
	return s.put(filepath.Join("names", key(n.Ref)), text)
}

// Image returns an image of the store by its ID. The error wraps ErrNoImage if it is not there as a whole.
func (s *Store) Image(id string) (*Image, error) {
	const remedy = "fetch it with gantry run"
	c, err := s.config(digest.Digest(id))
	if err != nil {
		return nil, fetch.NoImage(id, err.Error(), remedy)
	}
	i := s.image(digest.Digest(id), c)
	for _, d := range i.Layers {
		bytes, ok := s.layerBytes(d)
		if !ok {
			return nil, fetch.NoImage(id, "its layer "+string(d)+" is not in the store", remedy)
		}
		i.Bytes += bytes
	}
	return i, nil
}

func (s *Store) config(id digest.Digest) (*v1.Image, error) {
	if known(id) != nil {
		return nil, fetch.ErrNoImage
	}
	text, err := os.ReadFile(s.configFile(id))
	if err != nil {
		return nil, fetch.ErrNoImage
	}
	if digest.FromBytes(text) != id {
		return nil, errors.New("its configuration was changed in the store")
	}
	return parseConfig(text)
}

func (s *Store) configFile(id digest.Digest) string {
	return filepath.Join(s.dir, "images", id.Encoded()+".json")
}

// layerBytes is the size of the files of a layer, if the store has it.
func (s *Store) layerBytes(d digest.Digest) (bytes int64, ok bool) {
	is, bytes := s.layer(short(d))
	return bytes, is == d
}

// layer is the digest of a layer by its short name, "" if there is none, and the size of its files.
func (s *Store) layer(name string) (d digest.Digest, bytes int64) {
	text, _ := os.ReadFile(filepath.Join(s.dir, "layers", name, "bytes"))
	_, _ = fmt.Sscan(string(text), &bytes, &d)
	return d, bytes
}

// use is the images that a run needs.
type use struct {
	Dir    string // the run directory, or a name of another use
	Images []string
}

// Keep notes that the run in a directory needs the images that this store has fetched. Nobody removes them before the
// run is over.
func (s *Store) Keep(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fetched) == 0 {
		s.release()
		return nil
	}
	file, u := filepath.Join("uses", key(dir)), use{Dir: dir}
	if text, err := os.ReadFile(filepath.Join(s.dir, file)); err == nil {
		_ = json.Unmarshal(text, &u)
	}
	u.Images = append(u.Images, s.fetched...)
	slices.Sort(u.Images)
	u.Images = slices.Compact(u.Images)
	text, _ := json.Marshal(u)
	if err := s.put(file, text); err != nil {
		return unusable(err)
	}
	s.release()
	return nil
}

// Forget drops the note that the run in a directory needs images.
func (s *Store) Forget(dir string) { os.Remove(filepath.Join(s.dir, "uses", key(dir))) }

// Entry is an image as List and Remove show it.
type Entry struct {
	ID       string   `json:"id"`
	Names    []string `json:"names"` // references that stood for it when they were last looked up
	Platform string   `json:"platform"`
	Bytes    int64    `json:"bytes"`   // layers shared with other images included
	Whole    bool     `json:"whole"`   // it has all its layers
	Runs     []string `json:"runs"`    // directories of runs and shells that used it, and allocations of Slurm
	Created  string   `json:"created"` // RFC 3339; "" if the image does not say
}

// List returns the images of the store, the names first, in alphabetical order.
func (s *Store) List() ([]Entry, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	names, runs := map[string][]string{}, map[string][]string{}
	_ = each(s, "names", func(_ string, n name) { names[n.ID] = append(names[n.ID], n.Ref) })
	_ = each(s, "uses", func(_ string, u use) {
		for _, id := range u.Images {
			runs[id] = append(runs[id], u.Dir)
		}
	})
	var list []Entry
	for _, id := range ids {
		c, err := s.config(id)
		e := Entry{ID: string(id), Names: append([]string{}, names[string(id)]...),
			Runs: append([]string{}, runs[string(id)]...), Whole: err == nil}
		slices.Sort(e.Names)
		slices.Sort(e.Runs)
		if err == nil {
			e.Platform = platform(c.Platform)
			if c.Created != nil {
				e.Created = c.Created.UTC().Format(time.RFC3339)
			}
			for _, d := range c.RootFS.DiffIDs {
				bytes, ok := s.layerBytes(d)
				e.Bytes, e.Whole = e.Bytes+bytes, e.Whole && ok
			}
		}
		list = append(list, e)
	}
	named := func(e Entry) int { return min(1, len(e.Names)) }
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(named(b)-named(a), slices.Compare(a.Names, b.Names), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// ids are those of the images in the store, whole or not.
func (s *Store) ids() (ids []digest.Digest, err error) {
	files, err := s.entries("images")
	for _, file := range files {
		ids = append(ids, digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSuffix(file, ".json")))
	}
	return ids, err
}

func (s *Store) entries(sub string) (names []string, err error) {
	all, err := os.ReadDir(filepath.Join(s.dir, sub))
	if err != nil {
		return nil, unusable(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names, nil
}

// each calls f with the path and the content of each file in a directory of the store; that of a damaged file is zero.
// The error says that not all could be read.
func each[T any](s *Store, sub string, f func(path string, content T)) error {
	names, err := s.entries(sub)
	for _, n := range names {
		var content T
		path := filepath.Join(s.dir, sub, n)
		text, e := os.ReadFile(path)
		if errors.Is(e, fs.ErrNotExist) { // its run has dropped it just now
			continue
		}
		if e != nil {
			err = unusable(e)
			continue
		}
		if json.Unmarshal(text, &content) != nil {
			content = *new(T)
		}
		f(path, content)
	}
	return err
}

// Remove removes the images that no run needs: none in whose directory needed reports that it is not over. It returns
// them, and the bytes of layers that nothing else needs.
func (s *Store) Remove(ctx context.Context, needed func(dir string) bool) (removed []Entry, freed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	free, err := s.lock(ctx, changes, true)
	if errors.Is(err, context.DeadlineExceeded) {
		err = unusable(errors.New("another gantry brings images: try again when it has ended"))
	}
	if err != nil {
		return nil, 0, err
	}
	defer free()
	list, err := s.List()
	if err == nil {
		_, err = s.scratch() // by which another knows if this process is killed on the way
	}
	if err != nil {
		return nil, 0, err
	}
	stays := map[string]bool{}
	err = each(s, "uses", func(path string, u use) {
		if u.Dir == "" || !needed(u.Dir) {
			os.Remove(path)
			return
		}
		for _, id := range u.Images {
			stays[id] = true
		}
	})
	if err != nil {
		return nil, 0, err
	}
	for _, e := range list {
		if _, err := s.config(digest.Digest(e.ID)); err == nil && stays[e.ID] {
			continue
		}
		if err := os.Remove(s.configFile(digest.Digest(e.ID))); err != nil {
			return removed, freed, err
		}
		removed = append(removed, e)
	}
	_ = each(s, "names", func(path string, n name) {
		if !stays[n.ID] {
			os.Remove(path)
		}
	})
	freed, err = s.sweep()
	return removed, freed, err
}

// sweep removes the layers of no image, and all of tmp. It returns the size of the files of the layers. The caller has
// the lock of changes alone.
func (s *Store) sweep() (freed int64, err error) {
	trash, err := s.scratch()
	if err != nil {
		return 0, err
	}
	defer func() {
		left, _ := s.entries("tmp")
		for _, name := range left {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, "tmp", name)))
		}
	}()
	keep := map[string]bool{}
	ids, err := s.ids()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if c, err := s.config(id); err == nil {
			for _, d := range c.RootFS.DiffIDs {
				keep[short(d)], keep[d.Encoded()] = true, true
			}
		}
	}
	layers, err := s.entries("layers")
	for _, l := range layers {
		if keep[l] {
			continue
		}
		_, bytes := s.layer(l)
		if err := os.Rename(filepath.Join(s.dir, "layers", l), filepath.Join(trash, l)); err != nil {
			return freed, err
		}
		if _, err := os.Readlink(filepath.Join(trash, l)); err != nil { // no short name of another
			freed += bytes
		}
	}
	return freed, err
}
