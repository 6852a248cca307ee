package trace

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
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
	d.printf(`<?xml version="1.0" encoding="UTF-8"?>
<!-- written by gantry -->
<adag xmlns="http://pegasus.isi.edu/schema/DAX" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" `+
		`xsi:schemaLocation="http://pegasus.isi.edu/schema/DAX http://pegasus.isi.edu/schema/dax-2.1.xsd" `+
		`version="2.1" count="1" index="0" name="%s" jobCount="%d" fileCount="0" childCount="%d">`+"\n",
		d.text(w.Name), len(w.Tasks), children)
	for i := range w.Tasks {
		d.job(&w.Tasks[i])
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if len(t.Parents) == 0 {
			continue
		}
		d.printf("  <child ref=\"%s\">\n", d.text(t.ID))
		for _, p := range t.Parents {
			d.printf("    <parent ref=\"%s\"/>\n", d.text(w.Tasks[p].ID))
		}
		d.printf("  </child>\n")
	}
	d.printf("</adag>\n")
	if d.err != nil {
		return d.err
	}
	return d.Flush()
}

// daxWriter keeps the first error; after it nothing is written.
type daxWriter struct {
	*bufio.Writer
	wf   *Workflow
	what string // is being written, for errors
	err  error
}

func (d *daxWriter) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d, format, args...)
	}
}

func (d *daxWriter) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(d.what+": "+format, args...)
	}
}

// text is a text as XML has it.
func (d *daxWriter) text(s string) string {
	special := func(r rune) bool {
		return r < ' ' || r >= utf8.RuneSelf || r == '"' || r == '&' || r == '<' || r == '>' || r == '\''
	}
	if !strings.ContainsFunc(s, special) {
		return s
	}
	for _, r := range s {
		if r == utf8.RuneError || r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			d.fail("%q has a character that XML does not allow; write WfFormat instead", s)
			return ""
		}
	}
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		d.fail("%q: %w", s, err)
	}
	return b.String()
}

// number writes a number exactly and without an exponent.
func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func (d *daxWriter) job(t *Task) {
	d.what = "workflow " + d.wf.Label + ", task " + t.ID
	if t.SubWorkflow {
		d.fail("a sub-workflow node cannot be written as a job of DAX; write WfFormat instead")
	}
	d.printf(`  <job id="%s" namespace="%s" name="%s" version="1.0"`, d.text(t.ID), d.text(d.wf.Name), d.text(t.Kind))
	if t.Known.Has(Runtime) {
		seconds := fmt.Sprintf("%d.%09d", t.Runtime/1e9, t.Runtime%1e9)
		d.printf(` runtime="%s"`, strings.TrimRight(strings.TrimRight(seconds, "0"), "."))
	}
	if t.Known.Has(Cores) {
		d.printf(` cores="%s"`, number(t.Cores))
	}
	if t.Known.Has(Memory) {
		d.printf(` memory="%d"`, t.MemoryBytes)
	}
	d.printf(">\n")
	if t.Known.Has(Command) {
		d.argument(t)
	}
	profile := func(given bool, namespace, key, value string) {
		if given {
			d.printf("    <profile namespace=\"%s\" key=\"%s\">%s</profile>\n", namespace, d.text(key), d.text(value))
		}
	}
	profile(t.Image != "", "pegasus", "container.image", t.Image)
	for _, e := range t.Env {
		key, value, _ := strings.Cut(e, "=")
		profile(true, "env", key, value)
	}
	profile(t.Retries >= 0, "dagman", "RETRY", strconv.Itoa(t.Retries))
	profile(t.Tokens != "", "condor", "concurrency_limits", t.Tokens)
	profile(t.GPUs > 0, "pegasus", "gpus", number(float64(t.GPUs)/1000))
	profile(t.Network, "gantry", "network", "outbound")
	profile(t.Phase > 0, "gantry", "phase", strconv.Itoa(int(t.Phase)))
	profile(t.DiskBps > 0, "gantry", "disk", strconv.FormatInt(t.DiskBps, 10))
	profile(t.TimeLimit > 0, "gantry", "time-limit", number(t.TimeLimit.Seconds()))
	for _, s := range [][3]string{{"stdin", t.Stdin, "input"}, {"stdout", t.Stdout, "output"},
		{"stderr", t.Stderr, "output"}} {
		if s[1] != "" {
			d.printf("    <%s file=\"%s\" link=\"%s\"/>\n", s[0], d.text(s[1]), s[2])
		}
	}
	for _, f := range t.Inputs {
		d.uses(&d.wf.Files[f], "input", d.wf.Files[f].Producer < 0)
	}
	for _, f := range t.Outputs {
		d.uses(&d.wf.Files[f], "output", false)
	}
	d.printf("  </job>\n")
}

// argument writes the words of a command so that a reader splits them as they were.
func (d *daxWriter) argument(t *Task) {
	if t.Shell || len(t.Command) < 2 || t.Command[0] != t.Kind {
		d.fail("its command (%q) is not its transformation %s with arguments, which is all that DAX can tell; write "+
			"WfFormat instead", strings.Join(t.Command, " "), t.Kind)
		return
	}
	words := t.Command[1:]
	if t.Expand {
		words = words[:1]
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		spaced := strings.ContainsFunc(word, unicode.IsSpace)
		if quoted[i] = word; !t.Expand && (word == "" || spaced ||
			strings.ContainsAny(word, "'\"\\#;&|<>()$`*?[]{}~!")) {
			if spaced && (strings.Contains(word, "  ") ||
				strings.ContainsFunc(strings.ReplaceAll(word, " ", ""), unicode.IsSpace)) {
				d.fail("argument %q has white space that DAX does not keep; write WfFormat instead", word)
			}
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	d.printf("    <argument>%s</argument>\n", d.text(strings.Join(quoted, " ")))
}

// uses writes the use of a file; those that come from outside are staged in.
func (d *daxWriter) uses(f *File, link string, outside bool) {
	d.printf(`    <uses file="%s" link="%s"`, d.text(f.Name), link)
	switch {
	case outside || f.Keep == KeepAlways:
		d.printf(` register="true" transfer="true"`)
	case f.Keep == KeepNever:
		d.printf(` register="false" transfer="false"`)
	}
	d.printf(` optional="%t" type="data"`, f.Optional)
	if f.Sized && !f.Imputed {
		d.printf(` size="%d"`, f.Size)
	}
	d.printf("/>\n")
}
