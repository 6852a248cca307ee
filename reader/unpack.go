package reader

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// Watch remembers an error of the source itself, to tell it from what is wrong with the data.
type Watch struct {
	R   io.Reader
	Err error
}

func (w *Watch) Read(p []byte) (int, error) {
	n, err := w.R.Read(p)
	if err != nil && err != io.EOF {
		w.Err = err
	}
	return n, err
}

// FormatError says what a file is that is no workflow gantry reads.
type FormatError struct{ Rule, Message string }

func (e *FormatError) Error() string { return e.Message }

// Damage is an error of the data's wrapping as arguments of Faults.fail.
func Damage(err error) (rule string, line int, task, format string, arg any) {
	var fe *FormatError
	switch {
	case errors.As(err, &fe):
		return fe.Rule, 1, "", "%v", err
	case isTruncated(err):
		return "truncated", 1, "", "the file ends too early: %v; get it again", err
	}
	return "bad-archive", 1, "", "the compressed data are damaged: %v; get the file again", err
}

func isTruncated(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

const Window = 64 << 10 // what sniff may look at

// Unpack looks through gzip and zip and the encodings of Unicode.
func Unpack(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, Window)
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, Window)
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return nil, fmt.Errorf("zip: %w", err)
		}
		files := slices.DeleteFunc(z.File, func(f *zip.File) bool { return f.FileInfo().IsDir() })
		if len(files) != 1 {
			return nil, &FormatError{Rule: "unknown-format", Message: fmt.Sprintf("a zip archive of %d files: unpack it and name the workflow", len(files))}
		}
		f, err := files[0].Open()
		if err != nil {
			return nil, fmt.Errorf("zip: %w", err)
		}
		in = bufio.NewReaderSize(f, Window)
	}
	return decode(in), nil
}

// decode passes over the byte order mark of UTF-8 and reads UTF-16 as UTF-8. UTF-16 has a mark, or shows by the zero byte of an ASCII
// character, with which all these formats begin.
func decode(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(3)
	order := unicode.LittleEndian
	switch {
	case bytes.Equal(head, []byte("\xef\xbb\xbf")):
		in.Discard(3)
		return in
	case len(head) < 2:
		return in
	case head[0] == 0xfe && head[1] == 0xff, head[0] == 0 && head[1] != 0:
		order = unicode.BigEndian
	case head[0] == 0xff && head[1] == 0xfe, head[0] != 0 && head[1] == 0:
	default:
		return in
	}
	return bufio.NewReaderSize(unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in), Window)
}

// Keys are the keys of the outermost mapping of a JSON or YAML text, as far as the bytes go: of YAML those at the left margin.
func Keys(text []byte, whole bool) map[string]bool {
	keys := map[string]bool{}
	if bytes.HasPrefix(text, []byte("{")) {
		j := NewJSON(bufio.NewReader(bytes.NewReader(text)))
		j.Object(func(key string) error {
			keys[key] = true
			return j.Skip()
		})
		return keys
	}
	lines := bytes.Split(text, []byte("\n"))
	if !whole {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines {
		if key, _, ok := bytes.Cut(line, []byte(":")); ok && len(line) > 0 && !strings.ContainsRune(" \t#-", rune(line[0])) {
			keys[strings.Trim(strings.TrimSpace(string(key)), `"'`)] = true
		}
	}
	return keys
}
