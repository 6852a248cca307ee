// Package debian makes images of containers from packages of Debian or Ubuntu, by the machine's own package sources.
// Packages are unpacked, not configured: programs run, services and alternatives are not set up. A shell and its usual
// commands are always there (busybox). Nothing is installed, and it takes no root. Equal packages give an equal image.
package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

// Label is the label of an image that has the packages it was asked for.
const Label = "gantry.packages"

// ErrPackages says that packages cannot be had.
var ErrPackages = errors.New("packages cannot be fetched")

// leastSpace is how many MB building takes at most for the packages that people name.
const leastSpace = 600

// Image is an image to build.
type Image struct {
	Name     string // with its tag
	Packages string // in order, with blanks between them
}

var (
	names    = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*$`)
	packages = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]+$`)
)

// New checks the name of an image, and those of the packages that it is built from.
func New(name string, from []string) (*Image, error) {
	if !names.MatchString(name) {
		return nil, fmt.Errorf("%q is not the name of an image: it may have a-z, 0-9, and . _ - / : only", name)
	}
	if !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		name += ":latest"
	}
	for _, p := range from {
		if !packages.MatchString(p) {
			return nil, fmt.Errorf("%q is not the name of a package", p)
		}
	}
	from = slices.Sorted(slices.Values(from))
	return &Image{name, strings.Join(slices.Compact(from), " ")}, nil
}

// Build writes the image as docker save does.
func (i *Image) Build(ctx context.Context, to io.Writer, say func(string)) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("this is not Debian or Ubuntu: there is no %s (build the image on such a machine with "+
				"--archive FILE, and run workflows here with --image file:///PATH/FILE)", program)
		}
	}
	dir, err := os.MkdirTemp("", "gantry-image-")
	if err != nil {
		return fmt.Errorf("directory for packages: %w (set TMPDIR to another directory)", err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), space(dir)); err != nil { // apt has a user of its own
		return err
	}
	debs, err := (&apt{dir, say}).fetch(ctx, strings.Fields(i.Packages))
	if err == nil {
		err = i.write(ctx, to, dir, debs)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: free space in %s, or set TMPDIR to another directory", err, filepath.Dir(dir))
	}
	return err
}

// space refuses a disk that would become full. apt waits for ever on one.
func space(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look for space in %s: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize) >> 20; free < leastSpace {
		return fmt.Errorf("%d MB are free in %s, and building an image may take %d MB: free space there, "+
			"or set TMPDIR to another directory", free, filepath.Dir(dir), leastSpace)
	}
	return nil
}

// write writes the archive: a configuration and one layer.
func (i *Image) write(ctx context.Context, to io.Writer, dir string, debs []string) error {
	file, err := os.Create(filepath.Join(dir, "layer.tar"))
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	l := newLayer(io.MultiWriter(file, hash))
	for _, deb := range debs {
		if err := l.unpack(ctx, deb, dir); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	if err := l.end(ctx, dir); err != nil {
		return err
	}
	sum := digest.NewDigest(digest.SHA256, hash)
	// It says no time, so that the ID depends on the content only.
	config, err := json.Marshal(v1.Image{Platform: v1.Platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config: v1.ImageConfig{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/games"}, Cmd: []string{"/bin/sh"},
			Labels: map[string]string{"gantry.image": "debian", Label: i.Packages}},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{sum}}})
	if err != nil {
		return err
	}
	name := digest.FromBytes(config).Encoded() + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{i.Name},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	out := tar.NewWriter(to) // an error stays until it is closed
	for _, part := range []struct {
		name    string
		size    int64
		content io.Reader
	}{{name, int64(len(config)), bytes.NewReader(config)},
		{"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)}, {"layer.tar", size, file}} {
		_ = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: part.name, Mode: 0o644, Size: part.size,
			ModTime: epoch})
		if _, err := io.Copy(out, part.content); err != nil {
			return err
		}
	}
	return out.Close()
}

// apt fetches packages into a directory, and changes nothing else.
type apt struct {
	dir string
	say func(string)
}

// fetch returns the files of packages with all that they depend on, in order of their names.
func (a *apt) fetch(ctx context.Context, from []string) ([]string, error) {
	archives := filepath.Join(a.dir, "archives")
	err := errors.Join(os.Mkdir(archives, 0o755), os.Mkdir(a.dir+"/lists", 0o755), os.Mkdir(a.dir+"/cache", 0o755),
		// Nothing is installed as far as apt can see, so that it fetches all dependencies.
		os.WriteFile(a.dir+"/status", nil, 0o644))
	if err != nil {
		return nil, err
	}
	install := append([]string{"install", "-y", "--download-only", "busybox-static"}, from...)
	options := []string{"-o", "Dir::State::status=" + a.dir + "/status", "-o", "Dir::Cache=" + a.dir + "/cache", "-o",
		"Dir::Cache::archives=" + archives, "-o", "APT::Install-Recommends=0", "-o", "Debug::NoLocking=1"}
	failed := a.get(ctx, slices.Concat(options, install))
	if failed != "" && ctx.Err() == nil {
		// The machine's lists of packages are missing or old. New ones need no root if they are kept here.
		reason, _, _ := strings.Cut(failed, "\n")
		a.say("fetching new package lists: with those of this machine " + reason)
		options = append(options, "-o", "Dir::State::lists="+a.dir+"/lists")
		update := a.get(ctx, append(slices.Clone(options), "update"))
		if failed = a.get(ctx, slices.Concat(options, install)); failed != "" && update != "" {
			failed = "package lists: " + update + "\n" + failed
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if failed != "" {
		return nil, fmt.Errorf("%w: %s\ncorrect the names (apt-cache search WORD finds them), "+
			"or look at the package sources of this machine and its connection", ErrPackages, failed)
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	slices.Sort(debs)
	return debs, err
}

// get calls apt-get, and returns its errors, "" if there are none.
func (a *apt) get(ctx context.Context, args []string) string {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	return aptErrors(string(out), err)
}

// aptErrors are the errors in the output of apt-get. If lists cannot be fetched, apt-get ends well and says so.
func aptErrors(out string, err error) string {
	var said []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		for _, kind := range []string{"E: ", "W: Failed to fetch "} {
			if strings.HasPrefix(line, kind) && len(said) < 8 {
				said = append(said, strings.TrimPrefix(line, "E: "))
			}
		}
	}
	if said == nil && err != nil {
		said = []string{fmt.Sprintf("apt-get: %v: %s", err, strings.TrimSpace(out))}
	}
	return strings.Join(said, "\n")
}
