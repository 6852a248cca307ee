package trace

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteDAX writes w as DAX 2.1 in the dialect that simulators of workflows (WorkflowSim, SimGrid, WRENCH) share:
// runtime in seconds, cores and memory (bytes) as attributes of <job>, size in bytes as that of <uses>, and all
// dependencies as <child>, those that only files imply too. It streams: memory does not grow with the workflow. A
// task's name is its transformation (Kind). Imputed values are left out, and so are the average CPU use and the bytes
// read and written, which DAX has no words for.
//
// It is an error if a task is a sub-workflow node or its command is a shell script or a program other than its
// transformation: DAX says this elsewhere, or not at all. WriteWfFormat keeps them.
func WriteDAX(to io.Writer, w *Workflow) error {
	d := &daxWriter{Writer: bufio.NewWriterSize(to, 64<<10), wf: w, what: "workflow " + w.Label}
	children := 0
	for i := range w.Tasks {
		if len(w.Tasks[i].Parents) > 0 {
			children++
		}
	}
	d.str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- written by gantry -->\n<adag " +
		"xmlns=\"http://pegasus.isi.edu/schema/DAX\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" " +
		"xsi:schemaLocation=\"http://pegasus.isi.edu/schema/DAX http://pegasus.isi.edu/schema/dax-2.1.xsd\" " +
		"version=\"2.1\" count=\"1\" index=\"0\"")
	d.attr("name", w.Name)
	d.str(" jobCount=\"")
	d.num(int64(len(w.Tasks)))
	d.str("\" fileCount=\"0\" childCount=\"")
	d.num(int64(children))
	d.str("\">\n")
	for i := range w.Tasks {
		d.job(&w.Tasks[i])
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if len(t.Parents) == 0 {
			continue
		}
		d.str("  <child")
		d.attr("ref", t.ID)
		d.str(">\n")
		for _, p := range t.Parents {
			d.str("    <parent")
			d.attr("ref", w.Tasks[p].ID)
			d.str("/>\n")
		}
		d.str("  </child>\n")
	}
	d.str("</adag>\n")
	if d.err != nil {
		return d.err
	}
	return d.Flush()
}

// daxWriter keeps the first error; after it nothing is written.
type daxWriter struct {
	*bufio.Writer
	wf      *Workflow
	what    string // is being written, for errors
	scratch []byte
	err     error
}

func (d *daxWriter) str(s string) {
	if d.err == nil {
		_, d.err = d.WriteString(s)
	}
}

func (d *daxWriter) num(n int64) {
	d.scratch = strconv.AppendInt(d.scratch[:0], n, 10)
	if d.err == nil {
		_, d.err = d.Write(d.scratch)
	}
}

func (d *daxWriter) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(d.what+": "+format, args...)
	}
}

func (d *daxWriter) attr(name, value string) {
	d.str(" ")
	d.str(name)
	d.str("=\"")
	d.text(value)
	d.str("\"")
}

// text writes characters as XML has them.
func (d *daxWriter) text(s string) {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '&' || c == '<' || c == '>' || c == '\'' {
			plain = false
			break
		}
	}
	if plain {
		d.str(s)
		return
	}
	for _, r := range s {
		if r == utf8.RuneError || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			d.fail("%q has a character that XML does not allow; write WfFormat instead", s)
			return
		}
	}
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		d.fail("%q: %w", s, err)
	}
	d.str(b.String())
}

// seconds writes a duration in seconds, exactly and without an exponent.
func (d *daxWriter) seconds(x time.Duration) {
	s := strconv.AppendInt(d.scratch[:0], int64(x/time.Second), 10)
	if ns := int64(x % time.Second); ns != 0 {
		s = append(s, '.')
		for at := int64(time.Second / 10); at > ns; at /= 10 {
			s = append(s, '0')
		}
		s = bytes.TrimRight(strconv.AppendInt(s, ns, 10), "0")
	}
	d.scratch = s
	if d.err == nil {
		_, d.err = d.Write(s)
	}
}

func (d *daxWriter) job(t *Task) {
	d.what = "workflow " + d.wf.Label + ", task " + t.ID
	if t.SubWorkflow {
		d.fail("a sub-workflow node cannot be written as a job of DAX; write WfFormat instead")
	}
	d.str("  <job")
	d.attr("id", t.ID)
	d.attr("namespace", d.wf.Name)
	d.attr("name", t.Kind)
	d.str(" version=\"1.0\"")
	if t.Known.Has(Runtime) {
		d.str(" runtime=\"")
		d.seconds(t.Runtime)
		d.str("\"")
	}
	if t.Known.Has(Cores) {
		d.attr("cores", strconv.FormatFloat(t.Cores, 'f', -1, 64))
	}
	if t.Known.Has(Memory) {
		d.str(" memory=\"")
		d.num(t.MemoryBytes)
		d.str("\"")
	}
	d.str(">\n")
	if t.Known.Has(Command) {
		d.argument(t)
	}
	profile := func(namespace, key, value string) {
		d.str("    <profile")
		d.attr("namespace", namespace)
		d.attr("key", key)
		d.str(">")
		d.text(value)
		d.str("</profile>\n")
	}
	if t.Image != "" {
		profile("pegasus", "container.image", t.Image)
	}
	for _, e := range t.Env {
		key, value, _ := strings.Cut(e, "=")
		profile("env", key, value)
	}
	if t.Retries >= 0 {
		profile("dagman", "RETRY", strconv.Itoa(t.Retries))
	}
	if t.Phase > 0 {
		profile("gantry", "phase", strconv.Itoa(int(t.Phase)))
	}
	if t.DiskBps > 0 {
		profile("gantry", "disk", strconv.FormatInt(t.DiskBps, 10))
	}
	if t.TimeLimit > 0 {
		profile("gantry", "time-limit", strconv.FormatFloat(t.TimeLimit.Seconds(), 'f', -1, 64))
	}
	stream := func(element, file, link string) {
		if file != "" {
			d.str("    <" + element)
			d.attr("file", file)
			d.attr("link", link)
			d.str("/>\n")
		}
	}
	stream("stdin", t.Stdin, "input")
	stream("stdout", t.Stdout, "output")
	stream("stderr", t.Stderr, "output")
	for _, f := range t.Inputs {
		d.uses(&d.wf.Files[f], " link=\"input\"", d.wf.Files[f].Producer < 0)
	}
	for _, f := range t.Outputs {
		d.uses(&d.wf.Files[f], " link=\"output\"", false)
	}
	d.str("  </job>\n")
}

// argument writes the words of a command so that a reader splits them as they were.
func (d *daxWriter) argument(t *Task) {
	if t.Shell || len(t.Command) < 2 || t.Command[0] != t.Kind {
		d.fail("its command (%q) is not its transformation %s with arguments, which is all that DAX can tell; write "+
			"WfFormat instead",
			strings.Join(t.Command, " "), t.Kind)
		return
	}
	d.str("    <argument>")
	if t.Expand {
		d.text(t.Command[1])
		d.str("</argument>\n")
		return
	}
	for i, word := range t.Command[1:] {
		if i > 0 {
			d.str(" ")
		}
		spaced := strings.ContainsFunc(word, unicode.IsSpace)
		if word == "" || spaced || strings.ContainsAny(word, "'\"\\#;&|<>()$`*?[]{}~!") {
			if spaced && (strings.Contains(word, "  ") ||
				strings.ContainsFunc(strings.ReplaceAll(word, " ", ""), unicode.IsSpace)) {
				d.fail("argument %q has white space that DAX does not keep; write WfFormat instead", word)
			}
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		d.text(word)
	}
	d.str("</argument>\n")
}

// uses writes the use of a file; those that come from outside are staged in.
func (d *daxWriter) uses(f *File, link string, outside bool) {
	d.str("    <uses")
	d.attr("file", f.Name)
	d.str(link)
	switch {
	case outside || f.Keep == KeepAlways:
		d.str(" register=\"true\" transfer=\"true\"")
	case f.Keep == KeepNever:
		d.str(" register=\"false\" transfer=\"false\"")
	}
	if f.Optional {
		d.str(" optional=\"true\" type=\"data\"")
	} else {
		d.str(" optional=\"false\" type=\"data\"")
	}
	if f.Sized && !f.Imputed {
		d.str(" size=\"")
		d.num(f.Size)
		d.str("\"")
	}
	d.str("/>\n")
}
