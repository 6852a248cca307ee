package trace

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/encoding/unicode"
)

// ReadOptions are the switches of a reader.
type ReadOptions struct {
	// Repair takes what can be repaired as a warning: cycles lose the edges that lead back, a negative runtime is 0, a number that
	// cannot be is unknown, a dependency on an unknown task is dropped.
	Repair bool
	// Kilobytes multiplies the file sizes by 1000. Instances of Makeflow give kilobytes in all versions of WfFormat, also where the
	// schema says bytes; they are read as they are written unless this is set.
	Kilobytes bool

	sizeScale int64
}

// Find expands directories into the workflow files below them, sorted. Files of another kind that lie in a directory are skipped and
// returned as such; a path that is named itself is returned whatever it is. "-" stands for standard input.
func Find(paths []string) (files, skipped []string, err error) {
	for _, p := range paths {
		if p == "-" {
			files = append(files, p)
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, nil, err
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				skipped = append(skipped, path)
				return nil
			}
			switch f, err := sniffFile(path); {
			case err != nil:
				return err
			case f == Unknown:
				skipped = append(skipped, path)
			default:
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return files, skipped, nil
}

func sniffFile(path string) (Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return Unknown, err
	}
	defer f.Close()
	in, err := unpack(f)
	if err != nil {
		return DAX, nil // damaged archives are for Read to tell
	}
	format, _ := sniff(in)
	return format, nil
}

// Open reads the workflow in a file, "-" for standard input. See Read.
func Open(path string, opt ReadOptions) (*Workflow, []Fault, error) {
	if path == "-" {
		return Read(os.Stdin, path, opt)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return Read(f, path, opt)
}

// Read reads a workflow: DAX, Pegasus 5 YAML or WfFormat, told apart by content, in UTF-8 or UTF-16, plain, gzip or the only file of a
// zip archive. What
// is wrong in the data is in the faults, errors first; the error is one of reading r. The workflow is nil where nothing could be
// recognised; with error faults it is as much as could be understood, for a report, and must not be run.
func Read(r io.Reader, source string, opt ReadOptions) (*Workflow, []Fault, error) {
	opt.sizeScale = 1
	if opt.Kilobytes {
		opt.sizeScale = 1000
	}
	watched := &watch{r: r}
	b := newBuilder(source, opt)
	in, err := unpack(watched)
	if err != nil {
		b.faults.fail(damage(err))
	} else if b.wf.Format, err = sniff(in); err != nil {
		b.faults.fail(damage(err))
	} else {
		switch b.wf.Format {
		case DAX:
			b.readDAX(in)
		case PegasusYAML:
			b.readPegasus(in)
		case WfFormat:
			b.readWfFormat(in)
		}
		if b.wf.Format != Unknown {
			b.resolve()
		}
	}
	if watched.err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", source, watched.err)
	}
	if b.wf.Format == Unknown {
		return nil, b.faults.sorted(), nil
	}
	return b.wf, b.faults.sorted(), nil
}

// watch remembers an error of the source itself, to tell it from what is wrong with the data.
type watch struct {
	r   io.Reader
	err error
}

func (w *watch) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

// formatError says what a file is that is no workflow gantry reads.
type formatError struct{ rule, message string }

func (e *formatError) Error() string { return e.message }

// damage is an error of the data's wrapping as arguments of faultList.fail.
func damage(err error) (rule string, line int, task, format string, arg any) {
	var fe *formatError
	switch {
	case errors.As(err, &fe):
		return fe.rule, 1, "", "%v", err
	case isTruncated(err):
		return "truncated", 1, "", "the file ends too early: %v; get it again", err
	}
	return "bad-archive", 1, "", "the compressed data are damaged: %v; get the file again", err
}

func isTruncated(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// isDamage reports whether an error comes from decompression rather than from the grammar of the text.
func isDamage(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, zip.ErrChecksum) || errors.As(err, &corrupt)
}

const window = 64 << 10 // what sniff may look at

// unpack looks through gzip and zip and the encodings of Unicode.
func unpack(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, window)
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, window)
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
			return nil, &formatError{"unknown-format", fmt.Sprintf("a zip archive of %d files: unpack it and name the workflow", len(files))}
		}
		f, err := files[0].Open()
		if err != nil {
			return nil, fmt.Errorf("zip: %w", err)
		}
		in = bufio.NewReaderSize(f, window)
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
	return bufio.NewReaderSize(unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in), window)
}

// sniff tells the format from the first bytes, without consuming them.
func sniff(in *bufio.Reader) (Format, error) {
	head, err := in.Peek(window)
	whole := err != nil // all of it is in head
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) == 0 {
		if err != nil && err != io.EOF {
			return Unknown, err
		}
		return Unknown, &formatError{"empty", "there is nothing in it"}
	}
	unknown := func(is string) (Format, error) {
		return Unknown, &formatError{"unknown-format", is + "; gantry reads Pegasus DAX (XML), Pegasus 5 YAML and WfFormat (JSON)"}
	}
	if text[0] != '<' && IsWorkload(text) {
		return unknown("a workload file, which gantry run and gantry simulate take, and no workflow")
	}
	switch text[0] {
	case '<':
		switch root := xmlRoot(text); root {
		case "adag", "":
			return DAX, nil
		default:
			return unknown("an XML document <" + root + ">")
		}
	case '{':
		keys := jsonKeys(text)
		for key, is := range map[string]string{"rules": "Makeflow JSON", "processes": "a HyperFlow workflow", "signals": "a HyperFlow workflow"} {
			if slices.Contains(keys, key) && !slices.Contains(keys, "workflow") {
				return unknown(is)
			}
		}
		switch {
		case slices.Contains(keys, "workflow"):
			return WfFormat, nil
		case slices.Contains(keys, "pegasus"):
			return PegasusYAML, nil
		case slices.Contains(keys, "$schema"), whole && len(keys) > 0 && !slices.Contains(keys, "schemaVersion") && endsJSON(text):
			return unknown("a JSON object without a workflow")
		}
		return WfFormat, nil
	}
	keys := yamlKeys(text, whole)
	switch {
	case keys["pegasus"] && (keys["jobs"] || !whole), keys["x-pegasus"] && keys["jobs"]:
		return PegasusYAML, nil
	case keys["pegasus"] && (keys["replicas"] || keys["transformations"] || keys["sites"]):
		return unknown("a Pegasus catalogue, not a workflow")
	case keys["pegasus"]:
		return PegasusYAML, nil
	case bytes.HasPrefix(text, []byte("digraph")):
		return unknown("a DOT graph")
	case bytes.IndexByte(text[:min(len(text), 512)], 0) >= 0:
		return unknown("binary data, or a text that is neither UTF-8 nor UTF-16")
	}
	return unknown("neither XML, JSON nor a Pegasus YAML mapping")
}

// xmlRoot is the local name of the root element, "" where the bytes do not show it.
func xmlRoot(text []byte) string {
	for {
		i := bytes.IndexByte(text, '<')
		if i < 0 || i+1 >= len(text) {
			return ""
		}
		text = text[i:]
		end := []byte(">")
		switch {
		case bytes.HasPrefix(text, []byte("<!--")):
			end = []byte("-->")
		case text[1] == '?':
			end = []byte("?>")
		case text[1] != '!':
			n := bytes.IndexAny(text, " \t\r\n/>")
			if n < 0 {
				return ""
			}
			name := string(text[1:n])
			return name[strings.IndexByte(name, ':')+1:]
		}
		n := bytes.Index(text, end)
		if n < 0 {
			return ""
		}
		text = text[n+len(end):]
	}
}

// jsonKeys are the keys of the outermost object as far as the bytes go.
func jsonKeys(text []byte) (keys []string) {
	j := newJSONReader(bufio.NewReader(bytes.NewReader(text)))
	j.object(func(key string) error {
		keys = append(keys, key)
		return j.skip()
	})
	return keys
}

func endsJSON(text []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(text, " \t\r\n"), []byte("}"))
}

// yamlKeys are the keys at the left margin.
func yamlKeys(text []byte, whole bool) map[string]bool {
	keys := map[string]bool{}
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
