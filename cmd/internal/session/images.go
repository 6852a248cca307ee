package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor/container/docker"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/stage"
	"gantry/sqlite"
)

// images are what names of images stand for.
type images struct {
	mu     sync.RWMutex
	ids    map[string]string        // by name
	found  []sqlite.Image           // unless the log has them
	coming map[string]chan struct{} // by name, those that somebody fetches; closed when that is over
}

// id is the ID of the image of that name; "" if it is not known.
func (i *images) id(name string) string {
	if i == nil {
		return ""
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.ids[name]
}

// claim returns which of the names are not known and nobody fetches, which the caller is to do and then release. If
// there is none, it returns a channel that is closed when another may be known, or nil if all are.
func (i *images) claim(names map[string]bool) (mine map[string]bool, others <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mine = map[string]bool{}
	for name := range names {
		if i.ids[name] != "" {
			continue
		}
		if c := i.coming[name]; c != nil {
			others = c
			continue
		}
		mine[name] = true
	}
	if i.coming == nil {
		i.coming = map[string]chan struct{}{}
	}
	over := make(chan struct{})
	for name := range mine {
		i.coming[name] = over
	}
	return mine, others
}

// release ends what claim began.
func (i *images) release(mine map[string]bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	over := i.coming[slices.Sorted(maps.Keys(mine))[0]]
	for name := range mine {
		delete(i.coming, name)
	}
	close(over)
}

// unlogged are the images that were found before there was a run in the log.
func (i *images) unlogged() []sqlite.Image {
	if i == nil {
		return nil
	}
	return i.found
}

// fetchImages makes wanted images present that programs of the run need, before anything of them is started, and keeps
// what their names stand for: for a run that continues these are the images that it began with. In a server, several
// goroutines may do so.
func (s *Session) fetchImages(ctx context.Context, names map[string]bool) error {
	row := RuntimeNamed(s.set.Runtime)
	if s.images == nil {
		s.images = &images{}
	}
	var before []sqlite.Image
	if s.log != nil {
		s.images.mu.RLock()
		before = s.log.Info().Images
		s.images.mu.RUnlock()
	}
	// A run that was killed may have left images half unpacked, even if nothing is to be started any more.
	if row == nil || row.Images == nil || len(names)+len(before) == 0 && row.Cluster == nil {
		return nil
	}
	var wanted []fetch.Wanted
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s.images.id(name) == "" {
			wanted = append(wanted, fetch.Wanted{Ref: name})
		}
	}
	if len(wanted) == 0 && row.Cluster == nil {
		return nil
	}
	for i := range wanted {
		name := wanted[i].Ref
		if k := slices.IndexFunc(before, func(b sqlite.Image) bool { return b.Ref == name }); k >= 0 {
			wanted[i].ID, wanted[i].Digest = before[k].ID, before[k].Digest
		}
	}
	show := s.view.Arriving("image", "pulling")
	found, err := row.Images(ctx, s, wanted, show)
	show.Close()
	switch {
	case errors.Is(err, fetch.ErrNoImage):
		return exit.Inputf("%w\nnothing was started", err)
	case err != nil:
		return exit.Hostf("%w\nnothing was started", err)
	}
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	if s.images.ids == nil {
		s.images.ids = map[string]string{}
	}
	var fresh []sqlite.Image
	for i, x := range found {
		s.images.ids[x.Ref] = x.ID
		if wanted[i].ID == "" {
			fresh = append(fresh, sqlite.Image{Ref: x.Ref, ID: x.ID, Digest: x.Digest, Platform: x.Platform,
				Bytes: x.Bytes, Source: x.Source, Took: sqlite.Span(x.Took)})
		}
	}
	if s.log == nil {
		s.images.found = append(s.images.found, fresh...)
	} else if len(fresh) > 0 {
		return s.log.AddImages(fresh)
	}
	return nil
}

// fetchFirst is fetchImages for all that the run needs, before anything is started. The first signal ends it, and
// nothing stays of an image that was being unpacked.
func (s *Session) fetchFirst(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer early.Cancel(stop)()
	err := s.fetchImages(ctx, s.wanted)
	if ctx.Err() == nil {
		return err
	}
	if s.resumes && s.serving == nil {
		return exit.Stoppedf("stopped; nothing was started; continue with: gantry resume %s", s.name)
	}
	return exit.Stoppedf("stopped; nothing was started")
}

// fetching says how images of a run are fetched.
func (s *Session) fetching(show *term.Arrival) fetch.Options {
	return fetch.Options{Pull: fetch.Pull(s.set.Pull), Open: stage.Caller().Rights().Open, Look: s.looks,
		Begin:    func(ref, doing string) { show.Begin(doing + " image " + ref) },
		Progress: show.Update, End: show.End}
}

// fetchDocker makes images present in the Docker Engine.
func fetchDocker(ctx context.Context, s *Session, wanted []fetch.Wanted, show *term.Arrival) ([]fetch.Image, error) {
	return docker.Fetch{Options: s.fetching(show)}.Images(ctx, wanted)
}

// fetchOCI unpacks images in the store of this host, if it can run containers without a daemon.
func fetchOCI(ctx context.Context, s *Session, wanted []fetch.Wanted, show *term.Arrival) ([]fetch.Image, error) {
	e, err := oci.Open(oci.Config{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.Host(ctx); err != nil {
		return nil, err
	}
	return fetchStored(ctx, s, wanted, show)
}

// fetchStored unpacks images in the store of this host, which the session holds from then on.
func fetchStored(ctx context.Context, s *Session, wanted []fetch.Wanted, show *term.Arrival) ([]fetch.Image, error) {
	if err := s.openStore(); err != nil {
		return nil, err
	}
	engine := &docker.Source{}
	defer engine.Close()
	logins := sync.OnceValues(docker.ReadLogins)
	f := image.Fetch{Options: s.fetching(show), Engine: engine,
		Login: func(domain string) (l image.Login, err error) {
			all, err := logins()
			if err == nil {
				l.User, l.Password, l.Identity, l.Token, err = all.For(domain)
			}
			return l, err
		}}
	found, err := s.store.Fetch(ctx, f, wanted)
	if err != nil {
		return nil, err
	}
	var out []fetch.Image
	for _, i := range found {
		out = append(out, i.Image)
	}
	return out, nil
}

// OpenStore opens the store of images of this host, once.
func (s *Session) openStore() (err error) {
	if s.store == nil {
		s.store, err = OpenStore()
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

// Fetch makes images present for containers of no run. It returns the store that they are in, if there is one.
func (get fetcher) Fetch(ctx context.Context, pull string, wanted []fetch.Wanted) ([]fetch.Image, *image.Store,
	error) {
	s := &Session{set: &Settings{Pull: pull}, view: term.New(true)}
	found, err := get(ctx, s, wanted, s.view.Arriving("image", "pulling"))
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return found, s.store, nil
}

// keepImages notes that the run needs what its store has fetched, also after this process was killed.
func (s *Session) keepImages(ctx context.Context) error {
	if s.store == nil || s.log == nil {
		return nil
	}
	return s.store.Keep(ctx, s.dir)
}
