package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
//	images/HEX.json   the configuration of an image, by its digest
//	layers/HEX/fs     a layer, by the digest of its uncompressed archive; layers/HEX/bytes is the size of its files
//	l/HEX             a link to fs with a short name
//	names/HEX.json    the image that a reference stood for
//	uses/HEX.json     the images that a run needs
//	tmp/              files that are being unpacked
//	lock              see Store.lock
//
// Several processes may use a store at once.
type Store struct {
	dir  string
	self string // the name of this process in uses

	mu    sync.Mutex
	tmp   string // of this process, below tmp; made when needed
	holds []func()
	wants map[digest.Digest]int // how often this process holds an image
}

// process begins the names of processes in uses.
const process = "process "

// Open opens the store in a directory, and makes it. Remains of killed processes are removed. The caller closes the
// store when its run no longer needs the images.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, self: fmt.Sprintf(process+"%d-%d", os.Getpid(), time.Now().UnixNano()),
		wants: map[digest.Digest]int{}}
	for _, sub := range []string{"images", "layers", "l", "names", "uses", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("%w: store of images: %w (set %s to another directory)", fetch.ErrUnusable, err,
				DirEnv)
		}
	}
	s.tidy()
	return s, nil
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Close gives up the images that the store holds for this process, and removes remains of killed processes.
func (s *Store) Close() {
	s.tidy()
	s.mu.Lock()
	defer s.mu.Unlock()
	os.Remove(filepath.Join(s.dir, s.useFile(s.self)))
	if s.tmp != "" {
		_ = removeAll(s.tmp)
	}
	for _, give := range s.holds {
		give()
	}
	s.holds, s.tmp = nil, ""
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
		return nil, fmt.Errorf("%w: store of images: %w", fetch.ErrUnusable, err)
	}
	l := lockOf(name, exclusive)
	if err := unix.FcntlFlock(f.Fd(), setLock, &l); err != nil {
		f.Close()
		if errors.Is(err, unix.EACCES) {
			err = unix.EAGAIN
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

func lockOf(name string, exclusive bool) unix.Flock_t {
	sum := sha256.Sum256([]byte(name))
	l := unix.Flock_t{Type: unix.F_RDLCK, Start: int64(binary.BigEndian.Uint64(sum[:]) >> 2), Len: 1}
	if exclusive {
		l.Type = unix.F_WRLCK
	}
	return l
}

// changes is the name of the lock for registering uses and removing images.
const changes = "changes"

// tmpDir is the directory in which this process unpacks.
func (s *Store) tmpDir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tmp != "" {
		return s.tmp, nil
	}
	// the lock comes before the directory: nobody takes it for one that was left
	name := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	free, err := s.tryLock("tmp/"+name, true)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.dir, "tmp", name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		free()
		return "", err
	}
	s.tmp, s.holds = dir, append(s.holds, free)
	return s.tmp, nil
}

// tidyPatience is how long tidy waits for others that change the store. It is not needed for anything but space.
const tidyPatience = 10 * time.Second

// tidy removes remains of processes that were killed while they unpacked: layers of no image, images without all of
// their layers, and notes of uses by these processes. Files that others work on stay.
func (s *Store) tidy() {
	files, _ := s.entries("uses")
	dirs, _ := s.entries("tmp")
	killed := slices.ContainsFunc(files, func(f string) bool { return processUses(f) && s.free("uses/"+f) })
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return !s.free("tmp/" + d) })
	if !killed && len(dirs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyPatience)
	defer cancel()
	free, err := s.lock(ctx, changes, true)
	if err != nil {
		return
	}
	err = s.removeLeft()
	free()
	for _, d := range dirs { // last: another tidies if this process is killed here
		if err == nil && s.free("tmp/"+d) {
			_ = removeAll(filepath.Join(s.dir, "tmp", d))
		}
	}
}

// free reports whether no process holds a lock.
func (s *Store) free(name string) bool {
	f, err := os.Open(filepath.Join(s.dir, "lock"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	l := lockOf(name, true)
	return unix.FcntlFlock(f.Fd(), getLock, &l) == nil && l.Type == unix.F_UNLCK
}

// removeLeft removes images that are not whole and that no process works on, layers of no image, and notes of uses by
// killed processes. The caller holds the lock of changes.
func (s *Store) removeLeft() error {
	uses, err := s.uses()
	if err != nil {
		return err
	}
	images, err := s.entries("images")
	for _, file := range images {
		id := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSuffix(file, ".json"))
		if _, e := s.Image(string(id)); e != nil && !slices.ContainsFunc(uses, func(u use) bool {
			return u.live && slices.Contains(u.Images, string(id))
		}) {
			err = errors.Join(err, os.Remove(s.configFile(id)))
		}
	}
	if err == nil {
		_, err = s.sweep()
	}
	for _, u := range uses { // last, see tidy
		if err == nil && !u.live && strings.HasPrefix(u.Dir, process) {
			err = os.Remove(u.path)
		}
	}
	return err
}

// scratch returns a new directory to unpack into.
func (s *Store) scratch() (string, error) {
	dir, err := s.tmpDir()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, "")
}

// removeAll removes a tree, and makes directories in it writable first if it must.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(dir)
	}
	return err
}

// put writes a small file whole or not at all.
func (s *Store) put(name string, content []byte) error {
	dir, err := s.tmpDir()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "file-")
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
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:]) + ".json"
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
	c, err := s.config(digest.Digest(id))
	if err != nil {
		return nil, fetch.NoImage(id, err.Error(), "fetch it with gantry run")
	}
	i := s.image(digest.Digest(id), c)
	for _, d := range i.layers {
		bytes, ok := s.layerBytes(d)
		if !ok {
			return nil, fetch.NoImage(id, "its layer "+string(d)+" is not in the store",
				"fetch it with gantry run")
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
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.layerDir(d)), "bytes"))
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscan(string(text), &bytes)
	return bytes, err == nil
}

// use is the images that a run needs.
type use struct {
	Dir    string // the run directory, or Store.self
	Images []string

	path string
	live bool // the process that noted it is there
}

// useFile is the file with the images that a run, or this process, uses.
func (s *Store) useFile(dir string) string {
	if dir == s.self {
		return filepath.Join("uses", strings.ReplaceAll(dir, " ", "-")+".json")
	}
	return filepath.Join("uses", key(dir))
}

// processUses reports whether a name is one that useFile gives to the file of a process.
func processUses(file string) bool { return strings.HasPrefix(file, strings.TrimSpace(process)) }

// uses returns the uses of runs and processes.
func (s *Store) uses() (all []use, err error) {
	files, err := s.entries("uses")
	for _, file := range files {
		u := use{path: filepath.Join(s.dir, "uses", file)}
		if text, err := os.ReadFile(u.path); err == nil && json.Unmarshal(text, &u) == nil {
			u.live = !s.free("uses/" + file)
			all = append(all, u)
		}
	}
	return all, err
}

// Keep notes that the run in a directory needs the images that this store has fetched. Nobody removes them as long as
// the store is open, or the run is not over.
func (s *Store) Keep(ctx context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(s.dir, s.useFile(s.self)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var mine use
	if err == nil {
		err = json.Unmarshal(text, &mine)
	}
	for _, id := range mine.Images {
		if err == nil {
			err = s.hold(ctx, dir, digest.Digest(id), nil)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: store of images: %w", fetch.ErrUnusable, err)
	}
	return nil
}

// hold notes that a run, or this process, needs an image, before it is unpacked, and its configuration.
func (s *Store) hold(ctx context.Context, dir string, id digest.Digest, config []byte) error {
	free, err := s.lock(ctx, changes, true)
	if err != nil {
		return err
	}
	defer free()
	file := s.useFile(dir)
	mine, err := s.lock(ctx, file, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.holds = append(s.holds, mine)
	if dir == s.self {
		s.wants[id]++
	}
	s.mu.Unlock()
	u := use{Dir: dir}
	if text, err := os.ReadFile(filepath.Join(s.dir, file)); err == nil {
		_ = json.Unmarshal(text, &u)
	}
	if !slices.Contains(u.Images, string(id)) {
		u.Images = append(u.Images, string(id))
		text, _ := json.Marshal(u)
		if err := s.put(file, text); err != nil {
			return err
		}
	}
	if _, err := s.config(id); err == nil || config == nil {
		return nil
	}
	return s.put(filepath.Join("images", id.Encoded()+".json"), config)
}

// abandon takes back hold's note of an image that could not be unpacked, and its unpacked layers. They stay if this
// process has the same image from elsewhere, or is about to.
func (s *Store) abandon(id digest.Digest) error {
	free, err := s.lock(context.Background(), changes, true)
	if err != nil {
		return err
	}
	defer free()
	s.mu.Lock()
	s.wants[id]--
	left := s.wants[id]
	s.mu.Unlock()
	if left > 0 {
		return nil
	}
	uses, err := s.uses()
	if err != nil {
		return err
	}
	_, missing := s.Image(string(id))
	others := false
	for _, u := range uses {
		if slices.Contains(u.Images, string(id)) && u.Dir != s.self {
			others = others || u.live || missing == nil // a half image serves no run that may continue
		}
	}
	if !others {
		if err := os.Remove(s.configFile(id)); err != nil {
			return err
		}
		if _, err := s.sweep(); err != nil {
			return err
		}
	}
	for _, u := range uses { // last: another tidies if this process is killed before
		at := slices.Index(u.Images, string(id))
		if u.Dir != s.self || at < 0 {
			continue
		}
		if u.Images = slices.Delete(u.Images, at, at+1); len(u.Images) == 0 {
			return os.Remove(u.path)
		}
		text, _ := json.Marshal(u)
		return s.put(s.useFile(s.self), text)
	}
	return nil
}

// Entry is an image as List and Remove show it.
type Entry struct {
	ID       string   `json:"id"`
	Names    []string `json:"names"` // references that stood for it when they were last looked up
	Platform string   `json:"platform"`
	Bytes    int64    `json:"bytes"`   // layers shared with other images included
	Whole    bool     `json:"whole"`   // it has all its layers
	Runs     []string `json:"runs"`    // directories of runs that used it
	Created  string   `json:"created"` // RFC 3339; "" if the image does not say
}

// List returns the images of the store, the names first, in alphabetical order.
func (s *Store) List() ([]Entry, error) {
	found, err := s.entries("images")
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, text := range s.texts("names") {
		var n name
		if json.Unmarshal(text, &n) == nil {
			names[n.ID] = append(names[n.ID], n.Ref)
		}
	}
	runs := map[string][]string{}
	for _, text := range s.texts("uses") {
		var u use
		if json.Unmarshal(text, &u) == nil {
			for _, id := range u.Images {
				runs[id] = append(runs[id], u.Dir)
			}
		}
	}
	var list []Entry
	for _, file := range found {
		id := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSuffix(file, ".json"))
		e := Entry{ID: string(id), Names: []string{}, Runs: []string{}, Whole: true}
		e.Names, e.Runs = append(e.Names, names[string(id)]...), append(e.Runs, runs[string(id)]...)
		slices.Sort(e.Names)
		slices.Sort(e.Runs)
		if c, err := s.config(id); err == nil {
			e.Platform = platform(c.Platform)
			if c.Created != nil {
				e.Created = c.Created.UTC().Format(time.RFC3339)
			}
			for _, d := range c.RootFS.DiffIDs {
				bytes, ok := s.layerBytes(d)
				e.Bytes, e.Whole = e.Bytes+bytes, e.Whole && ok
			}
		} else {
			e.Whole = false
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		first := func(e Entry) string {
			if len(e.Names) > 0 {
				return e.Names[0]
			}
			return "\xff"
		}
		return cmp.Or(strings.Compare(first(a), first(b)), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

func (s *Store) entries(sub string) (names []string, err error) {
	all, err := os.ReadDir(filepath.Join(s.dir, sub))
	if err != nil {
		return nil, fmt.Errorf("%w: store of images: %w", fetch.ErrUnusable, err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names, nil
}

func (s *Store) texts(sub string) (texts [][]byte) {
	names, _ := s.entries(sub)
	for _, n := range names {
		if text, err := os.ReadFile(filepath.Join(s.dir, sub, n)); err == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// Remove removes the images that no run needs: none that works on now, and none in whose directory needed reports
// that it is not over. It returns them, and the bytes of layers that nothing else needs.
func (s *Store) Remove(ctx context.Context, needed func(dir string) bool) (removed []Entry, freed int64, err error) {
	free, err := s.lock(ctx, changes, true)
	if err != nil {
		return nil, 0, err
	}
	defer free()
	if _, err := s.tmpDir(); err != nil { // by which another knows if this process is killed on the way
		return nil, 0, err
	}
	list, err := s.List()
	if err != nil {
		return nil, 0, err
	}
	stays, err := s.needs(needed)
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
	names, _ := s.entries("names")
	for _, file := range names {
		path := filepath.Join(s.dir, "names", file)
		var n name
		if text, err := os.ReadFile(path); err == nil && (json.Unmarshal(text, &n) != nil || !stays[n.ID]) {
			os.Remove(path)
		}
	}
	freed, err = s.sweep()
	return removed, freed, err
}

// sweep removes the layers of no image, and returns the size of their files. The caller holds the lock of changes.
func (s *Store) sweep() (freed int64, err error) {
	trash, err := s.scratch()
	if err != nil {
		return 0, fmt.Errorf("%w: store of images: %w", fetch.ErrUnusable, err)
	}
	defer func() { err = errors.Join(err, removeAll(trash)) }()
	keep := map[string]bool{}
	images, err := s.entries("images")
	if err != nil {
		return 0, err
	}
	for _, file := range images {
		id := digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSuffix(file, ".json"))
		if c, err := s.config(id); err == nil {
			for _, d := range c.RootFS.DiffIDs {
				keep[d.Encoded()] = true
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	layers, err := s.entries("layers")
	for _, l := range layers {
		d := digest.NewDigestFromEncoded(digest.SHA256, l)
		if keep[l] || d.Validate() == nil && mounted(string(mounts), link(d)) {
			continue
		}
		bytes, _ := s.layerBytes(d)
		if err := os.Rename(filepath.Join(s.dir, "layers", l), filepath.Join(trash, l)); err != nil {
			return freed, err
		}
		freed += bytes
	}
	links, _ := s.entries("l")
	for _, l := range links {
		if _, err := os.Stat(filepath.Join(s.dir, "l", l)); errors.Is(err, fs.ErrNotExist) {
			os.Remove(filepath.Join(s.dir, "l", l))
		}
	}
	return freed, err
}

// needs returns the images that runs need, and removes the uses of other runs.
func (s *Store) needs(needed func(dir string) bool) (images map[string]bool, err error) {
	files, err := s.entries("uses")
	images = map[string]bool{}
	for _, file := range files {
		path := filepath.Join(s.dir, "uses", file)
		var u use
		if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &u) != nil {
			os.Remove(path)
			continue
		}
		free, err := s.tryLock(filepath.Join("uses", file), true)
		if err == nil {
			free()
			if !needed(u.Dir) {
				os.Remove(path)
				continue
			}
		}
		for _, id := range u.Images {
			images[id] = true
		}
	}
	return images, err
}

// mounted reports whether a list of mounts names a link as a directory of an overlay.
func mounted(mounts, link string) bool {
	return strings.Contains(mounts, link+":") || strings.Contains(mounts, link+",")
}
