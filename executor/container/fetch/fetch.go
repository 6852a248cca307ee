// Package fetch is the code that the Docker Engine and gantry's own store of images share for fetching the images of a
// run.
package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Pull says when images are fetched from their registries.
type Pull string

const (
	PullMissing Pull = "missing" // those that are not on this host
	PullAlways  Pull = "always"  // all, as a tag may have moved
	PullNever   Pull = "never"
)

// Pulls lists the values of Pull.
func Pulls() []string { return []string{string(PullMissing), string(PullAlways), string(PullNever)} }

// Own is the name space of the images that gantry builds. Nothing of it is ever pulled: its owner in a public registry
// is somebody else.
const Own = "gantry/"

// Build is the command that builds an image of that name space.
func Build(ref string) string {
	if strings.TrimSuffix(ref, ":latest") == Own+"busybox" {
		return "gantry image build " + ref + " busybox-static"
	}
	return "gantry image build " + ref + " PACKAGE..."
}

// archives begin the names of images in archives of docker save or of the OCI's image layout.
var archives = []string{"file://", "docker-archive:", "oci-archive:"}

// Wanted is an image that programs of a run need.
type Wanted struct {
	// Ref is the workflow's name of the image: a reference, docker:// and a reference, or a prefix in archives and the
	// path of an archive. A Docker Engine may not know archives of the OCI.
	Ref string
	// ID and Digest are those of the image that ran before under this name, if a run continues; else "".
	ID, Digest string
}

// Name is the reference or the path of the archive.
func (w *Wanted) Name() (name string, archive bool) {
	for _, prefix := range archives {
		if path, ok := strings.CutPrefix(w.Ref, prefix); ok {
			return path, true
		}
	}
	return strings.TrimPrefix(w.Ref, "docker://"), false
}

// Image is an image that containers can have.
type Image struct {
	Ref      string // as the workflow names it
	ID       string // sha256:..., which no other image ever has
	Digest   string // NAME@sha256:... in a registry; "" if the image never was in one
	Platform string // such as linux/amd64
	Bytes    int64  // on disk, layers shared with other images included
	Source   string // "local" if it was there, "pulled", "loaded" or "unpacked"; with Look "pull", "load" or "unpack"
	Took     time.Duration
}

// Options say how images are fetched.
type Options struct {
	Pull Pull
	// Begin hears of each step with an image, End of its arrival, Progress of the bytes so far and the bytes known of.
	// They are called from several goroutines; nil drops them.
	Begin    func(ref, doing string)
	Progress func(ref string, done, total int64)
	End      func(Image)
	// Patience is how long an image may arrive without progress; 0: a default.
	Patience time.Duration
	// Open opens an archive as the calling user may; nil: os.Open.
	Open func(path string) (*os.File, error)
	// Look only looks for images here: an image that would be fetched comes back without an ID.
	Look bool
}

// Started fills in defaults.
func (o Options) Started(patience time.Duration) Options {
	o.Patience = cmp.Or(o.Patience, patience)
	if o.Open == nil {
		o.Open = os.Open
	}
	if o.Begin == nil {
		o.Begin = func(string, string) {}
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.End == nil {
		o.End = func(Image) {}
	}
	return o
}

var (
	// ErrNoImage says that nobody has the image that a workflow names: the workflow is at fault.
	ErrNoImage = errors.New("image is not on this host")
	// ErrUnusable says that an image exists and cannot be used: it is damaged, for another kind of host, the disk is
	// full, or its registry does not give it.
	ErrUnusable = errors.New("image not usable")
)

// Error is the reason why an image is missing, and the remedy. It wraps ErrNoImage or ErrUnusable.
type Error struct {
	Ref, Reason, Remedy string
	kind                error
}

func (e *Error) Error() string { return fmt.Sprintf("image %s: %s (%s)", e.Ref, e.Reason, e.Remedy) }
func (e *Error) Unwrap() error { return e.kind }

// NoImage is an Error that wraps ErrNoImage.
func NoImage(ref, reason, remedy string) error { return &Error{ref, reason, remedy, ErrNoImage} }

// Unusable is an Error that wraps ErrUnusable.
func Unusable(ref, reason, remedy string) error { return &Error{ref, reason, remedy, ErrUnusable} }

// OpenArchive opens the archive of an image.
func (o *Options) OpenArchive(shown, path string) (*os.File, os.FileInfo, error) {
	f, err := o.Open(path)
	var st os.FileInfo
	if err == nil {
		if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
			err = errors.New("it is not a regular file")
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, nil, NoImage(shown, err.Error(), "write the archive with docker save, or correct the path")
	}
	return f, st, nil
}

// Runs reports whether a host, whose platform is such as linux/amd64, can run programs of an image for another one. An
// image that names no processor is for all.
func Runs(host, system, arch string) bool {
	switch {
	case system+"/"+arch == host, arch == "":
		return true
	case system != "linux":
		return false
	case arch == "386" && host == "linux/amd64", arch == "arm" && host == "linux/arm64":
		return true
	}
	// The kernel may know an emulator of that processor.
	names := map[string]string{"arm64": "aarch64", "amd64": "x86_64", "386": "i386"}
	_, err := os.Stat(filepath.Join("/proc/sys/fs/binfmt_misc", "qemu-"+filepath.Base(cmp.Or(names[arch], arch))))
	return err == nil && runtime.GOOS == "linux"
}
