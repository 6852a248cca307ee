package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// epoch is the time of all files: an image says nothing of when it was built.
var epoch = time.Unix(1577836800, 0)

// merged are directories at the root that are links to those below /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// leftOut are directories for people to read.
var leftOut = []string{"usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian",
	"usr/share/bug"}

// layer writes a root file system.
type layer struct {
	tar  *tar.Writer
	seen map[string]bool // of several files of one name, the first counts
}

// newLayer begins with the entries of every image. An error of the writer stays until the layer ends.
func newLayer(w io.Writer) *layer {
	l := &layer{tar.NewWriter(w), map[string]bool{}}
	_ = l.add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp", Mode: 0o1777}, nil)
	for _, d := range append([]string{"etc", "usr"}, merged...) {
		_ = l.add(tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}, nil)
	}
	for _, d := range merged { // add would put the link where it leads to
		_ = l.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: d, Mode: 0o777, Linkname: "usr/" + d,
			ModTime: epoch})
	}
	for _, f := range [][2]string{
		{"etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"},
		{"etc/group", "root:x:0:\nnogroup:x:65534:\n"}} {
		h := tar.Header{Typeflag: tar.TypeReg, Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}
		_ = l.add(h, strings.NewReader(f[1]))
	}
	return l
}

func (l *layer) add(h tar.Header, content io.Reader) error {
	h.Name = placed(h.Name)
	if h.Name == "" || l.seen[h.Name] || slices.ContainsFunc(leftOut, func(dir string) bool {
		return strings.HasPrefix(h.Name+"/", dir+"/")
	}) {
		return nil
	}
	l.seen[h.Name] = true
	h.ModTime, h.Uname, h.Gname = epoch, "", ""
	switch h.Typeflag {
	case tar.TypeLink:
		h.Linkname = placed(h.Linkname)
	case tar.TypeDir:
		h.Name += "/"
	}
	err := l.tar.WriteHeader(&h)
	if err == nil && h.Typeflag == tar.TypeReg {
		_, err = io.Copy(l.tar, content)
	}
	return err
}

// placed is where a file of a package lies in the image; "" is the root.
func placed(name string) string {
	name = path.Clean("/" + name)[1:]
	if top, _, _ := strings.Cut(name, "/"); slices.Contains(merged, top) {
		name = "usr/" + name
	}
	return name
}

func (l *layer) unpack(ctx context.Context, deb, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = l.addAll(tar.NewReader(out), dir)
	if err != nil {
		cancel()
	} else {
		_, err = io.Copy(io.Discard, out) // padding
	}
	if e := cmd.Wait(); err == nil && e != nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", e, bytes.TrimSpace(said.Bytes()))
	}
	return err
}

// addAll adds the files of an archive. It keeps the program of busybox in dir, for end.
func (l *layer) addAll(in *tar.Reader, dir string) error {
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var content io.Reader = in
		if placed(h.Name) == busybox && h.Typeflag == tar.TypeReg {
			f, err := os.OpenFile(filepath.Join(dir, "busybox"), os.O_RDWR|os.O_CREATE, 0o755)
			if err != nil {
				return err
			}
			defer f.Close()
			content = io.TeeReader(in, f)
		}
		if err := l.add(*h, content); err != nil {
			return err
		}
	}
}

const busybox = "usr/bin/busybox"

// end adds the commands of busybox that no package has, and ends the layer.
func (l *layer) end(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "busybox"), "--list").Output()
	if err != nil {
		return fmt.Errorf("ask busybox for its commands: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if l.seen["usr/sbin/"+name] {
			continue
		}
		_ = l.add(tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/" + name, Mode: 0o777, Linkname: "busybox"}, nil)
	}
	return l.tar.Close()
}
