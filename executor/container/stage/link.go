package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// Leaving is the error of a link that leads out of the directory that it has to stay in.
type Leaving struct {
	Link, To string // the link, below the directory, and its text
	At       string // where it leads, if that is an absolute path
}

func (l *Leaving) Error() string {
	return fmt.Sprintf("the symbolic link %s leads outside, to %s", shown.Quote(l.Link), shown.Quote(l.To))
}

// mostLinks is how many links in a row the kernel follows.
const mostLinks = 40

// Follow returns the path without links that a path below root leads to. It is for links of inputs and of outputs
// alike: each of them has to stay below root, which programs see at top, or by another name. An absolute link to a
// place below it stays there, and so does one that leaves top and comes back. A link that leads to nothing has a path,
// too, and an error that is fs.ErrNotExist.
//
// It looks at one name after the other, each through root: the kernel lets no name lead out of that directory, even if
// a link takes its place meanwhile. The path that Follow returns has to be used through root for the same reason,
// unless nobody changes the directory any more.
func Follow(root *os.Root, top, path string, other ...string) (real string, err error) {
	link, text, links := path, path, 0
	real = "."
	for rest := parts(path); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			if real == "." {
				return "", &Leaving{Link: link, To: text}
			}
			real = filepath.Dir(real)
			continue
		}
		real = filepath.Join(real, name)
		if err != nil { // of missing files only the names count
			continue
		}
		st, e := root.Lstat(real)
		switch {
		case e == nil && st.Mode()&fs.ModeSymlink != 0:
		case e == nil && len(rest) > 0 && !st.IsDir():
			err = fs.ErrNotExist
			continue
		case e == nil:
			continue
		case errors.Is(e, fs.ErrNotExist):
			err = fs.ErrNotExist
			continue
		default:
			return "", e
		}
		if links++; links > mostLinks {
			return "", fmt.Errorf("the symbolic link %s leads to itself, or through too many others: %w",
				shown.Quote(path), unix.ELOOP)
		}
		link = real
		if text, e = root.Readlink(real); e != nil {
			return "", e
		}
		inside := Relative(top, real, text, other...)
		if filepath.IsAbs(inside) {
			return "", &Leaving{link, text, text + "/" + strings.Join(rest, "/")}
		}
		real, rest = filepath.Dir(real), append(parts(inside), rest...)
	}
	return real, err
}

// List lists a directory below the first of these directories, or below a later one to which links lead from there. All
// others are empty to it.
func List(path string, tops ...string) ([]fs.DirEntry, error) {
	if len(tops) == 0 {
		return nil, nil
	}
	name, below := strings.CutPrefix(path+"/", tops[0]+"/")
	if !below {
		return List(path, tops[1:]...)
	}
	root, err := os.OpenRoot(tops[0])
	if err != nil {
		return nil, err
	}
	defer root.Close()
	real, err := Follow(root, tops[0], name)
	if leaves, ok := errors.AsType[*Leaving](err); ok {
		return List(filepath.Clean(leaves.At), tops[1:]...)
	}
	if err != nil {
		return nil, err
	}
	dir, err := root.OpenFile(real, os.O_RDONLY|unix.O_DIRECTORY, 0) // which does not wait for a pipe
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// parts are the names of a path but for those that lead nowhere else.
func parts(path string) (names []string) {
	for name := range strings.SplitSeq(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}

// Relative returns the text of a link at place as one that does not leave top. It does so for an absolute link below
// top, or below another name of it, and for one that leaves top and comes back at once, if top is a path without links.
// The text of others stays.
func Relative(top, place, text string, other ...string) string {
	at, names, depth, up := text, parts(text), len(parts(filepath.Dir(place))), 0
	for up < len(names) && names[up] == ".." {
		up++
	}
	if up > depth && !filepath.IsAbs(text) {
		above := filepath.Join(top, strings.Repeat("../", up-depth))
		at = strings.TrimSuffix(above, "/") + "/" + strings.Join(names[up:], "/")
	}
	for _, name := range append(other, top) {
		if rest, below := strings.CutPrefix(at+"/", name+"/"); below && filepath.IsAbs(at) {
			return strings.Repeat("../", depth) + strings.TrimSuffix("./"+rest, "/")
		}
	}
	return text
}
