package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gantry/trace/reader"
)

// UsedSite is what names of sites stand behind in ReadOptions.Used.
const UsedSite = "site "

// ReadOptions are the switches of a reader.
type ReadOptions struct {
	// Repair turns faults that can be repaired into warnings: cycles lose the edges that lead back, a negative runtime
	// is 0, a number that cannot be is unknown, a dependency on an unknown task is dropped.
	Repair bool
	// Kilobytes multiplies the file sizes by 1000. Instances of Makeflow give kilobytes in all versions of WfFormat,
	// also where the schema says bytes; they are read as they are written unless this is set.
	Kilobytes bool
	// Define gives variables of makeflows their values, over those of the file.
	Define map[string]string
	// Shell runs the commands that are for a shell, instead of the shell that the file names; "": as the file says.
	Shell string
	// Used, if set, gets the variables that makeflows use or set, and behind UsedSite the sites that programs of
	// catalogs have.
	Used map[string]bool
	// Seen, if set, is told of each workflow that is read.
	Seen func(*Workflow, []Fault)
	// MaxInput bounds the content of a compressed file, in bytes; 0: reader.MaxInput, or reader.MaxRatio times its
	// size.
	MaxInput int64

	// Catalogs are files with catalogs or properties of Pegasus, which count before those of the workflow.
	Catalogs []string
	// Site is where transformations are taken from that catalogs have on several sites; "": the first with a container.
	Site string
	// EnforceWalltime takes the walltimes of profiles as time limits.
	EnforceWalltime bool

	GFlops float64 // of DOT: billions of operations a second of a node of speed 1; 0: 1
	Graph  string  // of traces of Nextflow: a DOT file with the dependencies of its processes
	// Instances makes each instance of a task of an archive a task.
	Instances bool

	sizeScale int64
	near      bool // the source is a file: catalogs may lie beside it, and in the working directory
}

// Find expands directories into the workflow files below them, sorted. Files of another kind that lie in a directory
// are skipped and returned as such, also with the error that no path has a workflow; a path that is named itself is
// always returned. "-" stands for standard input.
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
		if !info.IsDir() || isWTA(p) {
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
			case f == Unknown, IsMakefile(path): // which mostly build programs: name it
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
	if len(files) == 0 && len(paths) > 0 {
		return nil, skipped, fmt.Errorf("%s: no workflow below this directory", strings.Join(paths, ", "))
	}
	return files, skipped, nil
}

// CheckFile refuses a path without a file, and a directory.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; name a file", path)
	}
	return err
}

// Plain says in plain words that a file is not there; other errors it returns as they are.
func Plain(err error) error {
	if missing := new(fs.PathError); errors.Is(err, fs.ErrNotExist) && errors.As(err, &missing) {
		return errors.New(missing.Path + ": no such file or directory; check the path")
	}
	return err
}

func sniffFile(path string) (Format, error) {
	f, err := os.Open(path)
	if err != nil {
		return Unknown, err
	}
	defer f.Close()
	in := reader.Open(f, 0)
	format, err := sniff(in.Reader, path)
	if unknown := new(reader.FormatError); err != nil && !errors.As(err, &unknown) {
		return DAX, nil // damaged archives are for Read to tell
	}
	return format, nil
}

// Open reads the workflow in a file, "-" for standard input. See Read.
func Open(path string, opt ReadOptions) (*Workflow, []Fault, error) {
	if path == "-" {
		return Read(os.Stdin, path, opt)
	}
	if err := CheckFile(path); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	opt.near = true
	return Read(f, path, opt)
}

// Read reads a workflow: DAX, Pegasus 5 YAML, WfFormat or a makeflow, distinguished by content, in UTF-8 or UTF-16,
// plain, gzip or the only file of a zip archive. The faults are those of the data, errors first; the error is one of
// reading r. The workflow is nil where nothing could be recognised; with error faults it is as much as could be
// understood, for a report, and must not be run.
func Read(r io.Reader, source string, opt ReadOptions) (*Workflow, []Fault, error) {
	opt.sizeScale = 1
	if opt.Kilobytes {
		opt.sizeScale = 1000
	}
	b := newBuilder(&Workflow{Source: source, Label: label(source)}, opt)
	in := reader.Open(r, opt.MaxInput)
	b.in = in
	var err error
	if b.wf.Format, err = sniff(in.Reader, source); err != nil && !b.brokenYAML() {
		b.faults.Damage(err, 1)
	}
	if read := formats[b.wf.Format].flow; read != nil {
		read(b)
	} else if b.wf.Format.IsArchive() {
		b.faults.Fail("archive", 1, "", "an archive (%s), which is many workflows: give it to gantry simulate, or "+
			"name it as archive in a workload file (docs/archives.md)", b.wf.Format)
		b.wf.Format = Unknown
	}
	if b.wf.Format != Unknown && !b.lacks {
		b.resolve()
	}
	if in.Err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", source, in.Err)
	}
	if b.wf.Format == Unknown {
		return nil, b.faults.Sorted(), nil
	}
	if opt.Seen != nil {
		opt.Seen(b.wf, b.faults.Sorted())
	}
	return b.wf, b.faults.Sorted(), nil
}

// isYAML reports whether a source is YAML by its name.
func isYAML(source string) bool {
	name := strings.TrimSuffix(strings.ToLower(source), ".gz")
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// brokenYAML reports whether a source that is YAML by its name has a syntax error, which hides the keys that tell the
// format, and makes that error the fault.
func (b *builder) brokenYAML() bool {
	if !isYAML(b.wf.Source) {
		return false
	}
	data, err := b.in.All()
	var faults reader.Faults
	if err == nil {
		reader.ParseYAML(data, &faults)
	}
	for _, f := range faults.Sorted() {
		if f.Rule == "syntax" {
			b.faults.Fail(f.Rule, f.Line, "", "%s", f.Message)
			return true
		}
	}
	return false
}

// scenarioFile describes, by its keys, a file of package scenario; "" if the file is none.
func scenarioFile(keys map[string]bool) string {
	switch {
	case keys["workflows"], keys["mix"]:
		return "a workload file, which gantry run and gantry simulate take, and no workflow"
	case keys["nodes"]:
		return "a cluster file, for --cluster, and no workflow"
	case keys["factors"]:
		return "an experiment file, for gantry experiment, and no workflow"
	}
	return ""
}

// sniff recognises the format by the first bytes, without consuming them; makeflows that are not JSON by the name of
// the file.
func sniff(in *bufio.Reader, source string) (Format, error) {
	head, err := in.Peek(reader.Window)
	whole := err != nil // all of it is in head
	text := bytes.TrimLeft(head, " \t\r\n")
	if len(text) == 0 {
		if err != nil && err != io.EOF {
			return Unknown, err
		}
		return Unknown, &reader.FormatError{Rule: "empty", Message: "there is nothing in it"}
	}
	unknown := func(is string) (Format, error) {
		return Unknown, &reader.FormatError{Rule: "unknown-format", Message: is +
			"; gantry reads Pegasus DAX (XML), Pegasus 5 YAML, WfFormat (JSON), makeflows (by their names: Makeflow, " +
			"Makefile, *.makeflow, *.mf or *.mk), and what docs/files.md lists"}
	}
	if f := tableFormat(text, source); f != Unknown {
		return f, nil
	}
	if IsMakeflow(source) && text[0] != '<' && bytes.IndexByte(text, 0) < 0 {
		return Makeflow, nil
	}
	keys := map[string]bool{}
	if text[0] != '<' {
		keys = reader.Keys(text, whole)
	}
	long := !whole && (keys["jobs"] || keys["jobDependencies"]) // Pegasus' keys may be in the order of the alphabet
	// In YAML keys need no quotes.
	flow := isYAML(source) && !bytes.HasPrefix(bytes.TrimLeft(text[1:], " \t\r\n"), []byte(`"`))
	switch {
	case text[0] == '<':
		switch root := xmlRoot(text); root {
		case "adag", "":
			return DAX, nil
		default:
			return unknown("an XML document <" + root + ">")
		}
	case text[0] == '{' && !flow:
		switch {
		case keys["workflow"]:
			return WfFormat, nil
		case keys["rules"]:
			return Makeflow, nil
		case keys["rule"] && keys["starttime"]:
			return Metadata, nil
		case foreignFile(keys, nil, "") != "":
			return unknown(foreignFile(keys, nil, ""))
		case scenarioFile(keys) != "":
			return unknown(scenarioFile(keys))
		case keys["pegasus"], long:
			return PegasusYAML, nil
		case keys["$schema"], whole && len(keys) > 0 && !keys["schemaVersion"] && bytes.HasSuffix(bytes.TrimSpace(text),
			[]byte("}")):
			return unknown("a JSON object without a workflow")
		}
		return WfFormat, nil
	}
	switch {
	case keys["pegasus"] && (keys["jobs"] || !whole), keys["x-pegasus"] && keys["jobs"]:
		return PegasusYAML, nil
	case keys["pegasus"] && (keys["replicas"] || keys["transformations"] || keys["sites"]):
		return unknown("a Pegasus catalogue, not a workflow")
	case keys["pegasus"]:
		return PegasusYAML, nil
	case foreignFile(keys, text, source) != "":
		return unknown(foreignFile(keys, text, source))
	case scenarioFile(keys) != "":
		return unknown(scenarioFile(keys))
	case long:
		return PegasusYAML, nil
	case bytes.IndexByte(text[:min(len(text), 512)], 0) >= 0:
		return unknown("binary data, or a text that is neither UTF-8 nor UTF-16")
	}
	return unknown("neither a workflow nor, by its keys, a workload, cluster or experiment file")
}

// xmlRoot is the local name of the root element, "" where the bytes do not show it.
func xmlRoot(text []byte) string {
	x := reader.NewXML(bufio.NewReader(bytes.NewReader(text)))
	_, _ = x.Next() // its fault is for the reader to tell
	return x.Name
}
