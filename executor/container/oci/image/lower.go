package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"gantry/executor/container/fetch"
)

// maxOption is how long the list of lower directories may be: the kernel takes a page of mount options, of which the
// rest is for the other directories.
const maxOption = 3600

// Lower returns the image's layers as the value of overlay's option lowerdir, the highest first; "" if it has none. A
// list that is too long by its paths, or whose paths overlay cannot take, goes over a descriptor of this process, which
// done closes once the overlay is mounted: on the calling thread, if that has a mount namespace of its own.
func (i *Image) Lower() (lowerdir string, done func(), err error) {
	if len(i.Layers) == 0 {
		return "", func() {}, nil
	}
	top := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(i.Layers[0]))), "l")
	s := &Store{dir: filepath.Dir(top)}
	var links []string
	for _, d := range slices.Backward(i.layers) {
		link := s.link(d)
		if link == "" {
			return "", nil, fmt.Errorf("%w: layer %s of image %s is no longer in the store", fetch.ErrUnusable, d, i.ID)
		}
		links = append(links, link)
	}
	join := func(top string) string {
		var b strings.Builder
		for k, l := range links {
			if k > 0 {
				b.WriteByte(':')
			}
			b.WriteString(top + "/" + l)
		}
		return b.String()
	}
	// colons and commas part options, and a backslash escapes them
	if list := join(top); len(list) <= maxOption && !strings.ContainsAny(top, `:,\`) {
		return list, func() {}, nil
	}
	fd, err := unix.Open(top, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("store of images: %w", err)
	}
	return join("/proc/self/fd/" + strconv.Itoa(fd)), func() { unix.Close(fd) }, nil
}

// minLink is the least length of the names of links. Two layers whose digests begin alike have longer ones.
const minLink = 8

// link is the name of the short link to a layer, "" if it has none.
func (s *Store) link(d digest.Digest) string {
	for n := minLink; n <= len(d.Encoded()); n += 4 {
		name := d.Encoded()[:n]
		switch to, err := os.Readlink(filepath.Join(s.dir, "l", name)); {
		case err != nil:
			return ""
		case to == target(d):
			return name
		}
	}
	return ""
}

func target(d digest.Digest) string { return "../layers/" + d.Encoded() + "/fs" }

// makeLink makes the short link to a layer.
func (s *Store) makeLink(d digest.Digest) error {
	for n := minLink; n <= len(d.Encoded()); n += 4 {
		path := filepath.Join(s.dir, "l", d.Encoded()[:n])
		err := os.Symlink(target(d), path)
		if to, _ := os.Readlink(path); err == nil || to == target(d) {
			return nil
		} else if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("layer %s: no name is left for its link", d)
}
