package page

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // pictures that results are
	"image/jpeg"
	_ "image/png"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/image/draw"

	"gantry/executor"
)

// Result is a file that a run left for its user.
type Result struct {
	Name  string `json:"name"` // WORKFLOW/FILE
	Bytes int64  `json:"bytes"`
	Link  string `json:"link,omitempty"`
	Thumb string `json:"thumb,omitempty"` // a data URL of a small picture
}

// Bounds of the results that a page lists, of the pictures among them, and of what is read for these.
const (
	maxResults = 200
	maxWalked  = 20_000
	maxThumbs  = 12
	thumbWidth = 360
	maxPicture = 64 << 20 // bytes of a file
	maxPixels  = 40 << 20
)

var digits = regexp.MustCompile(`[0-9]+`)

// counted is a name by which names stand as people count: part-9 before part-10.
func counted(name string) string {
	return digits.ReplaceAllStringFunc(name, func(n string) string {
		return fmt.Sprintf("%20s", strings.TrimLeft(n, "0"))
	})
}

// ResultsIn lists the regular files below directories of workflows in dir, in the order of their names, and how many
// more there are. Links begin with base, the address of dir; "" for none.
func ResultsIn(dir, base string, flows []string) (all []Result, more int) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0
	}
	defer root.Close()
	thumbs, walked := 0, 0
	add := func(name string) {
		info, err := root.Lstat(name)
		if err != nil {
			return // an unreadable result is left out
		}
		if len(all) == maxResults {
			more++
			return
		}
		r := Result{Name: strings.ToValidUTF8(name, "�"), Bytes: info.Size()}
		if base != "" {
			r.Link = base + (&url.URL{Path: name}).EscapedPath()
		}
		if thumbs < maxThumbs && info.Size() <= maxPicture {
			if r.Thumb = thumb(root, name); r.Thumb != "" {
				thumbs++
			}
		}
		all = append(all, r)
	}
	for _, flow := range flows {
		names := map[string]string{} // by counted and name
		_ = fs.WalkDir(root.FS(), executor.EscapeName(flow), func(name string, d fs.DirEntry, err error) error {
			if walked++; walked > maxWalked {
				return fs.SkipAll
			}
			if err == nil && d.Type().IsRegular() {
				names[counted(name)+"\x00"+name] = name
			}
			return nil
		})
		for _, key := range slices.Sorted(maps.Keys(names)) {
			add(names[key])
		}
	}
	return all, more
}

// OpenResult opens a regular file below dir, out of which no link leads.
func OpenResult(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may be there by now
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}

// thumb is a small picture of one that a program made, as a data URL; "" if the file is none.
func thumb(root *os.Root, name string) string {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe may be there by now
	if err != nil {
		return ""
	}
	defer f.Close()
	size, _, err := image.DecodeConfig(f)
	if err != nil || size.Width < 1 || size.Height < 1 || size.Width > maxPixels/size.Height {
		return ""
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ""
	}
	whole, _, err := image.Decode(f)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, shrunk(whole), &jpeg.Options{Quality: 82}); err != nil {
		return ""
	}
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// shrunk is a picture of at most thumbWidth pixels each way, on white.
func shrunk(of image.Image) image.Image {
	from := of.Bounds()
	scale := max(1, float64(max(from.Dx(), from.Dy()))/thumbWidth)
	to := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(from.Dx())/scale)), max(1, int(float64(from.Dy())/scale))))
	draw.Draw(to, to.Bounds(), image.White, image.Point{}, draw.Src)
	draw.BiLinear.Scale(to, to.Bounds(), of, from, draw.Over, nil)
	return to
}
