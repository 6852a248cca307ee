package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/sqlite"
)

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
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	s, err := image.Open(dir)
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

// storeFacts are those of the store of images.
func storeFacts(ctx context.Context) []container.Fact {
	f := container.Fact{Name: "image-store", Verdict: container.No,
		Advice: "set " + image.DirEnv + " to a directory on a local disk (ext4, xfs, btrfs)"}
	dir, err := image.DefaultDir()
	if err != nil {
		f.Evidence = err.Error()
		return []container.Fact{f}
	}
	s, err := image.Open(dir)
	if err != nil {
		f.Evidence = err.Error()
		return []container.Fact{f}
	}
	defer s.Close()
	free, err := s.Try(ctx)
	if err != nil {
		f.Evidence = fmt.Sprintf("%s does not take what images have: %v", dir, err)
		return []container.Fact{f}
	}
	list, err := s.List()
	if err != nil {
		f.Evidence = err.Error()
		return []container.Fact{f}
	}
	return []container.Fact{{Name: f.Name, Verdict: container.Yes,
		Evidence: fmt.Sprintf("%s takes what images have; %s, space for %s", dir, term.Plural(len(list), "image"),
			term.Size(&free))}}
}

// RemoveStored removes the images of the store that no run needs, and returns their names.
func RemoveStored(ctx context.Context) (removed []string, freed int64, err error) {
	_, s, err := StoredImages()
	if err != nil || s == nil {
		return nil, 0, err
	}
	defer s.Close()
	gone, freed, err := s.Remove(ctx, func(dir string) bool { return Unfinished(ctx, dir) })
	for i := range gone {
		removed = append(removed, strings.Join(ShownNames(&gone[i]), " ")+" ("+gone[i].ID[:19]+")")
	}
	return removed, freed, err
}

// Unfinished reports whether a run directory is that of a run that can continue.
func Unfinished(ctx context.Context, dir string) bool {
	if _, err := os.Stat(dir); err != nil {
		return false
	}
	if Held(filepath.Join(dir, "lock")) {
		return true
	}
	runs, err := logged(ctx, filepath.Dir(dir))
	return err != nil || slices.ContainsFunc(runs, func(r sqlite.Overview) bool {
		return r.Run == filepath.Base(dir) && r.State != sqlite.Finished && r.State != sqlite.Failed
	})
}
