package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/stage"
	"gantry/executor/lock"
	"gantry/sqlite"
	"gantry/trace/shown"
)

// images has the images that names stand for, and the store that they lie in.
type images struct {
	mu     sync.RWMutex
	ids    map[string]string // by name
	found  []sqlite.Image    // unless the log has them
	coming sync.Map          // by name: chan struct{}, with a place for the submission that fetches it
	store  *image.Store      // nil: the runtime needs none, or it is not open yet
	slurm  *onSlurm          // nil: the nodes are this host's
}

// id is the ID of the image of that name; "" if it is not known.
func (i *images) id(name string) string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.ids[name]
}

// openStore opens the store of images of this host, once.
func (i *images) openStore() (err error) {
	if i.store == nil {
		i.store, err = OpenStore()
	}
	return err
}

// OpenStore opens the store of images of this host.
func OpenStore() (*image.Store, error) {
	dir, err := image.DefaultDir()
	if err != nil {
		return nil, err
	}
	return image.Open(dir)
}

// keep notes that a run of the log needs the images of its store, also after this process was killed.
func (i *images) keep(log *sqlite.Run, dir string) error {
	if i.store == nil || log == nil {
		return nil
	}
	return i.store.Keep(dir)
}

// FetchAlone makes an image present for a submission to a server, once no other one fetches it.
func (s *Session) FetchAlone(ctx context.Context, name string) error {
	place, _ := s.coming.LoadOrStore(name, make(chan struct{}, 1))
	turn := place.(chan struct{})
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.id(name) != "" { // the other one has fetched it
		return nil
	}
	if err := s.fetch(ctx, &s.Planning, s.Log, map[string]bool{name: true}); err != nil {
		return err
	}
	return s.keep(s.Log, s.Dir)
}

// fetch makes wanted images present before any task of the run is started, and keeps the images that their names
// stand for: for a run that continues these are the images that it began with. In a server, several goroutines may do
// so.
func (i *images) fetch(ctx context.Context, p *Planning, log *sqlite.Run, names map[string]bool) error {
	row := RuntimeNamed(p.Set.Runtime)
	var before []sqlite.Image
	if log != nil {
		i.mu.RLock()
		before = log.Info().Images
		i.mu.RUnlock()
	}
	// A run that was killed may have left images half unpacked, even if nothing is to be started any more.
	if row == nil || row.Images == nil || len(names)+len(before) == 0 && row.Cluster == nil {
		return nil
	}
	var wanted []fetch.Wanted
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if i.id(name) == "" {
			wanted = append(wanted, fetch.Wanted{Ref: name})
		}
	}
	if len(wanted) == 0 && row.Cluster == nil {
		return nil
	}
	for w := range wanted {
		name := wanted[w].Ref
		if k := slices.IndexFunc(before, func(b sqlite.Image) bool { return b.Ref == name }); k >= 0 {
			wanted[w].ID, wanted[w].Digest = before[k].ID, before[k].Digest
		}
	}
	found, err := row.Images(ctx, i, fetching(p.Set.Pull, p.View), wanted)
	p.View.End()
	if err != nil {
		return notFetched(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ids == nil {
		i.ids = map[string]string{}
	}
	var fresh []sqlite.Image
	for k, x := range found {
		i.ids[x.Ref] = x.ID
		if wanted[k].ID == "" {
			fresh = append(fresh, sqlite.Image{Ref: x.Ref, ID: x.ID, Digest: x.Digest, Platform: x.Platform,
				Bytes: x.Bytes, Source: x.Source, Took: sqlite.Span(x.Took)})
		}
	}
	if log == nil {
		i.found = append(i.found, fresh...)
	} else if len(fresh) > 0 {
		return log.AddImages(fresh)
	}
	return nil
}

// fetchFirst is fetch for all images of the run, before anything is started. The first signal ends it, and
// nothing stays of an image that was being unpacked.
func (s *Session) fetchFirst(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer early.Cancel(stop)()
	err := s.fetch(ctx, &s.Planning, s.Log, s.wanted)
	if ctx.Err() == nil {
		return err
	}
	if s.resumes && s.opts.Server == nil {
		return exit.Stoppedf("stopped; nothing was started; continue with: %s", s.again())
	}
	return exit.Stoppedf("stopped; nothing was started")
}

// notFetched gives an error of fetching images its exit code.
func notFetched(err error) error {
	if errors.Is(err, fetch.ErrNoImage) {
		return exit.Inputf("%w\nnothing was started", err)
	}
	return exit.Hostf("%w\nnothing was started", err)
}

// fetching are options to fetch images as pull says, and to show that.
func fetching(pull string, view *term.Progress) fetch.Options {
	return fetch.Options{Pull: fetch.Pull(pull), Open: stage.Caller().Rights().Open,
		Begin:    func(ref, doing string) { view.Note("%s image %s", doing, ref) },
		Progress: view.Arriving("image", "pulling"), End: func(x fetch.Image) {
			view.Note("%s image %s (%s, %s)", x.Source, term.ImageName(x.Ref, x.Digest), shown.Size(x.Bytes),
				x.Took.Round(100*time.Millisecond))
		}}
}

// fetchOCI unpacks images in the store of this host, if it can run containers without a daemon.
func fetchOCI(ctx context.Context, i *images, o fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error) {
	e, err := oci.Open(oci.Config{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.Host(ctx); err != nil {
		return nil, err
	}
	of := func(w fetch.Wanted) bool { // once an image could have that name
		return w.Ref == executor.HostImage && (w.ID == "" || w.ID == executor.HostImage)
	}
	host := slices.IndexFunc(wanted, of)
	if host < 0 {
		return i.fetchStored(ctx, o, wanted)
	}
	if err := e.Shows(); err != nil {
		return nil, fmt.Errorf("--image host: %w", err)
	}
	found, err := i.fetchStored(ctx, o, slices.DeleteFunc(slices.Clone(wanted), of))
	if err != nil {
		return nil, err
	}
	return slices.Insert(found, host, fetch.Image{Ref: executor.HostImage, ID: executor.HostImage,
		Source: "local"}), nil
}

// fetchStored unpacks images in the store of this host, which stays open from then on.
func (i *images) fetchStored(ctx context.Context, o fetch.Options, wanted []fetch.Wanted) ([]fetch.Image, error) {
	if err := i.openStore(); err != nil {
		return nil, err
	}
	engine := &docker.Source{}
	defer engine.Close()
	logins := sync.OnceValues(docker.ReadLogins)
	return i.store.Fetch(ctx, image.Fetch{Options: o, Engine: engine,
		Login: func(domain string) (fetch.Login, error) {
			all, err := logins()
			if err != nil {
				return fetch.Login{}, err
			}
			return all.For(domain)
		}}, wanted)
}

// Fetch makes images present for containers of no run. It returns the store that they are in, if there is one.
func (get fetcher) Fetch(ctx context.Context, pull string, wanted []fetch.Wanted) ([]fetch.Image, *image.Store,
	error) {
	var i images
	found, err := get(ctx, &i, fetching(pull, term.New(true)), wanted)
	if err != nil && i.store != nil {
		i.store.Close()
	}
	return found, i.store, err
}

// ShownNames are the names of an image for people.
func ShownNames(e *image.Entry) (names []string) {
	for _, n := range e.Names {
		switch {
		case strings.HasPrefix(n, "archive:"):
			n = n[:strings.LastIndexByte(n[:strings.LastIndexByte(n, ':')], ':')]
		case strings.HasPrefix(n, "docker-engine:"):
			continue
		}
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(n, "docker.io/"), "library/"))
	}
	if names == nil {
		names = []string{"-"}
	}
	return names
}

// HasStore reports whether there is a store of images.
func HasStore() bool {
	dir, err := image.DefaultDir()
	if err == nil {
		_, err = os.Stat(dir)
	}
	return err == nil
}

// StoredImages lists the images of the store, and opens nothing that is not there.
func StoredImages() ([]image.Entry, *image.Store, error) {
	dir, err := image.DefaultDir()
	if err == nil {
		_, err = os.Stat(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	var s *image.Store
	if err == nil {
		s, err = OpenStore()
	}
	if err != nil {
		return nil, nil, err
	}
	list, err := s.List()
	return list, s, err
}

// ociFacts are those of images of containers without a daemon, for gantry doctor.
func ociFacts(ctx context.Context) []container.Fact {
	f := container.Fact{Name: "host-programs", Verdict: container.Yes,
		Evidence: "--image host shows the programs of this host"}
	e, err := oci.Open(oci.Config{})
	if err == nil {
		defer e.Close()
		err = e.Shows()
	}
	if err != nil { // which is no limit
		f.Verdict, f.Evidence = container.Unknown, "--image host: "+err.Error()
	}
	return append(storeFacts(ctx), f)
}

func storeFacts(ctx context.Context) []container.Fact {
	var list []image.Entry
	var free int64
	s, err := OpenStore()
	if err == nil {
		defer s.Close()
		if free, err = s.Try(ctx); err != nil {
			err = fmt.Errorf("%s does not store the attributes of files in images: %w", s.Dir(), err)
		} else {
			list, err = s.List()
		}
	}
	if err != nil {
		return []container.Fact{{Name: "image-store", Verdict: container.No, Evidence: err.Error(),
			Advice: "set " + image.DirEnv + " to a directory on a local disk (ext4, xfs, btrfs)"}}
	}
	return []container.Fact{{Name: "image-store", Verdict: container.Yes,
		Evidence: fmt.Sprintf("%s stores the attributes of files in images; %s, space for %s", s.Dir(),
			term.Plural(len(list), "image"),
			term.Size(&free))}}
}

// RemoveStored removes the images of the store that no run needs, and returns their names.
func RemoveStored(ctx context.Context) (removed []string, freed int64, err error) {
	list, s, err := StoredImages()
	if err != nil || s == nil {
		return nil, 0, err
	}
	defer s.Close()
	over := map[string]bool{} // by allocation: Slurm is asked while others may bring images
	for i := range list {
		for _, use := range list[i].Runs {
			if _, asked := over[use]; !asked && strings.HasPrefix(use, allocationUse) {
				over[use] = !Unfinished(ctx, use)
			}
		}
	}
	gone, freed, err := s.Remove(ctx, func(use string) bool {
		if strings.HasPrefix(use, allocationUse) { // one that is not listed has just come
			return !over[use]
		}
		return Unfinished(ctx, use)
	})
	for i := range gone {
		removed = append(removed, strings.Join(ShownNames(&gone[i]), " ")+" ("+gone[i].ID[:19]+")")
	}
	return removed, freed, err
}

// allocationUse is before the number of an allocation of Slurm that uses images of its nodes.
const allocationUse = "slurm-allocation:"

// KeepOnNode notes on a node that the allocation of the step at hand needs the images that a store has fetched.
func KeepOnNode(store *image.Store) error {
	return store.Keep(allocationUse + os.Getenv("SLURM_JOB_ID"))
}

// Unfinished reports whether a run directory is that of a run that can continue, or the directory of an open shell, or
// whether an allocation of Slurm is not known to be over.
func Unfinished(ctx context.Context, dir string) bool {
	if job, ok := strings.CutPrefix(dir, allocationUse); ok {
		_, err := allocation.Attach(ctx, job)
		return !errors.Is(err, allocation.ErrOver)
	}
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	if lock.OfRun(dir) || lock.Taken(filepath.Join(dir, shellMark)) {
		return true
	}
	runs, err := logged(ctx, filepath.Dir(dir))
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool {
		return r.Run == filepath.Base(dir) && r.State != sqlite.Finished && r.State != sqlite.Failed
	})
}

// Load brings the image of an archive under a name to where the runtime looks for images. The Docker Engine takes the
// name from the archive.
func (r *Runtime) Load(ctx context.Context, ref string, archive *os.File) error {
	if !r.Store {
		wanted := []fetch.Wanted{{Ref: "file://" + archive.Name()}}
		_, err := docker.Fetch(ctx, fetch.Options{Pull: fetch.PullAlways}, wanted)
		return err
	}
	s, err := OpenStore()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Load(ctx, fetch.Options{}, ref, archive)
}

// Label is a label of an image where the runtime looks for images.
func (r *Runtime) Label(ctx context.Context, ref, label string) (string, error) {
	if !r.Store {
		engine := &docker.Source{}
		defer engine.Close()
		return engine.Label(ctx, ref, label)
	}
	s, err := OpenStore()
	if err != nil {
		return "", err
	}
	defer s.Close()
	return s.Label(ref, label), nil
}
