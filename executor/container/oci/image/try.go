package image

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
)

// Try unpacks a small layer, to see whether the file system of the store takes all that images have, and returns how
// many bytes may be written to it.
func (s *Store) Try(ctx context.Context) (free int64, err error) {
	sp, free, err := newSpace(ctx, s.dir)
	if err != nil {
		return 0, err
	}
	unlock, err := s.lock(ctx, changes, false)
	if err != nil {
		return 0, err
	}
	defer unlock()
	dir, err := s.scratch()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	program := tar.Header{Typeflag: tar.TypeReg, Name: "d/program", Mode: 0o755, Uid: os.Geteuid(), Gid: os.Getegid(),
		Format: tar.FormatPAX}
	if os.Geteuid() == 0 { // version 2, with CAP_NET_RAW
		program.PAXRecords = map[string]string{xattrRecord + "security.capability": "\x01\x00\x00\x02\x00\x20" +
			string(make([]byte, 14))}
	}
	for _, h := range []tar.Header{program, {Typeflag: tar.TypeLink, Name: "hard", Linkname: "d/program"},
		{Typeflag: tar.TypeReg, Name: ".wh.gone"}, {Typeflag: tar.TypeReg, Name: "d/" + opaqueMark},
		{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 3}} {
		if err := w.WriteHeader(&h); err != nil {
			return 0, err
		}
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	_, err = unpack(&b, dir, sp)
	return free, err
}
