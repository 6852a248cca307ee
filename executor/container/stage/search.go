package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gantry/executor"
	"gantry/trace"
)

// Search says how files from outside are looked for: in the locations that catalogs give, in their order, then in the
// directories of the submission (--inputs), then beside the workflow.
type Search struct {
	User User
	// Fetch brings the file at an http(s) address to this host and returns its path; nil: addresses are taken as good.
	Fetch func(ctx context.Context, url string) (path string, err error)

	last folder
}

// Missing is a file that a program needs and that was not found.
type Missing struct {
	File, Task string
	Looked     []Look
}

// Look is a place where a file was looked for, and why it is not taken from there.
type Look struct{ Where, Why string }

// Locate returns where each file is, by position in the trace, and those that a program needs and that are nowhere. The
// inputs of emulated tasks are made up unless they are in the directories of the submission.
func (s *Search) Locate(ctx context.Context, sub *executor.Submission, files []executor.Outside) ([]executor.Source,
	[]Missing, error) {
	defer s.last.close()
	sources := make([]executor.Source, len(sub.Workflow.Files))
	var missing []Missing
	for _, f := range files {
		found, looked, err := s.one(ctx, sub, f)
		if err != nil {
			return nil, nil, err
		}
		sources[f.File] = found
		if found == (executor.Source{}) && f.Program && !sub.Workflow.Files[f.File].Optional {
			missing = append(missing, Missing{sub.Workflow.Files[f.File].Name, sub.Workflow.Tasks[f.Task].ID, looked})
		}
	}
	return sources, missing, nil
}

// one looks for one file. The error is that of the context, or of a full disk.
func (s *Search) one(ctx context.Context, sub *executor.Submission, f executor.Outside) (executor.Source,
	[]Look, error) {
	var looked []Look
	sum := ""
	var places []string
	if from := sub.Workflow.Files[f.File].Origin; f.Program && from != nil {
		places, sum = from.Locations, from.SHA256
	}
	for _, place := range append(places[:len(places):len(places)], s.usual(sub, f)...) {
		if slices.ContainsFunc(looked, func(l Look) bool { return l.Where == place }) {
			continue
		}
		found := executor.Source{Path: place}
		var err error
		if trace.Fetched(place) {
			if found = (executor.Source{URL: place, SHA256: sum}); s.Fetch == nil {
				return found, looked, nil
			}
			if found.Path, err = s.Fetch(ctx, place); errors.Is(err, syscall.ENOSPC) {
				return found, nil, err
			}
		}
		switch scheme, _, address := strings.Cut(place, "://"); {
		case err != nil:
		case address && found.URL == "":
			err = fmt.Errorf("gantry fetches http and https, and not %s", scheme)
		default:
			err = s.User.check(ctx, &s.last, &found, sum)
		}
		// In these formats a file may be a directory.
		if format := sub.Workflow.Format; errors.Is(err, errDirectory) && sum == "" && found.URL == "" &&
			(format == trace.WfFormat || format == trace.Makeflow) {
			found.Size, err = s.User.SizeBelow(place)
		}
		switch {
		case ctx.Err() != nil:
			return found, nil, ctx.Err()
		case err == nil:
			return found, looked, nil
		default:
			looked = append(looked, Look{place, err.Error()})
		}
	}
	return executor.Source{}, looked, nil
}

// usual are the places of a file that no catalog has to name.
func (s *Search) usual(sub *executor.Submission, f executor.Outside) (places []string) {
	if sub.Workflow.Files[f.File].Program() != "" { // of a catalog, which says where it is
		return nil
	}
	for _, dir := range append([]string{sub.Inputs}, sub.Dirs...) {
		if dir != "" {
			places = append(places, filepath.Join(dir, filepath.FromSlash(f.Name)))
		}
	}
	if src := sub.Workflow.Source; f.Program && src != "-" && src != "" {
		if dir, err := filepath.Abs(filepath.Dir(src)); err == nil {
			places = append(places, filepath.Join(dir, filepath.FromSlash(f.Name)))
		}
	}
	return places
}

// check completes the description of a file on this host, if it can be taken.
func (u User) check(ctx context.Context, last *folder, found *executor.Source, sum string) (err error) {
	var f *os.File
	var st fs.FileInfo
	if u.Do(func() { f, st, err = last.open(found.Path) }); err != nil {
		return err
	}
	defer f.Close()
	found.Size, found.Modified = st.Size(), st.ModTime().UnixNano()
	if sum == "" {
		return nil
	}
	got, err := digest(ctx, f)
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, sum) {
		return fmt.Errorf("its SHA-256 is %s, the catalog says %s", got, sum)
	}
	found.SHA256 = got
	return nil
}

// Check returns why a file of this host cannot be taken, if its SHA-256 has to be sum; "" is any.
func (u User) Check(ctx context.Context, path, sum string) error {
	var last folder
	defer last.close()
	return u.check(ctx, &last, &executor.Source{Path: path}, sum)
}

// digest is the SHA-256 of the rest of r, in hex.
func digest(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		h.Write(buf[:n])
		switch {
		case err == io.EOF:
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}
