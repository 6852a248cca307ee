// Package reader has the common parts of the readers of all files: tokenisers for XML, JSON and YAML, faults with their
// lines, numbers with units, and files in any wrapping. It is a leaf.
package reader

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"gantry/trace/shown"
)

// Severity distinguishes errors, which make a workflow unusable, from warnings, for which a stated rule names the
// consequence.
type Severity uint8

const (
	Warning Severity = iota
	Error
)

func (s Severity) String() string { return [...]string{"warning", "error"}[s] }

// Fault is one thing wrong with a trace file.
type Fault struct {
	Severity Severity `json:"-"`
	Rule     string   `json:"rule"`           // stable short name, such as "cycle" or "size-differs"
	Line     int      `json:"line,omitempty"` // 1-based, 0 where the format gives none
	Task     string   `json:"task,omitempty"` // id, "" if the fault is not one task's
	Message  string   `json:"message"`        // the fault and, for a warning, its consequence
	Count    int      `json:"count"`          // how many times; 1 unless occurrences were merged
	Repaired bool     `json:"-"`              // --repair did it
}

// Faults collects faults. Of errors the first MaxErrors are kept, and the one that ended the reading; warnings of one
// rule are merged into the first, since real files have thousands of some kinds.
type Faults struct {
	list   []Fault
	last   map[string]int // rule → index of the warning that further ones are merged into
	seen   map[string]int // warnings by rule
	errors int
	ended  bool
}

// Warn adds a warning.
func (l *Faults) Warn(rule string, line int, task, format string, args ...any) {
	l.WarnUpTo(1, rule, line, task, format, args...)
}

// WarnUpTo adds a warning; of one rule there are at most that many.
func (l *Faults) WarnUpTo(most int, rule string, line int, task, format string, args ...any) {
	if l.seen == nil {
		l.seen, l.last = map[string]int{}, map[string]int{}
	}
	if l.seen[rule]++; l.seen[rule] > most {
		l.list[l.last[rule]].Count++
		return
	}
	l.last[rule] = len(l.list)
	l.add(Warning, rule, line, task, format, args)
}

// endings are the rules of errors that end the reading.
var endings = []string{"bound", "truncated", "syntax", "bad-archive"}

// Fail adds an error.
func (l *Faults) Fail(rule string, line int, task, format string, args ...any) {
	l.errors++
	end := slices.Contains(endings, rule)
	if l.errors <= MaxErrors || end && !l.ended {
		l.add(Error, rule, line, task, format, args)
	}
	l.ended = l.ended || end
}

// Full reports whether further errors are only counted.
func (l *Faults) Full() bool { return l.errors >= MaxErrors }

// Repaired adds a warning of a repair.
func (l *Faults) Repaired(rule string, line int, task, format string, args ...any) {
	l.WarnUpTo(MaxErrors, rule, line, task, format, args...)
	l.list[l.last[rule]].Repaired = true
}

// Repaired reports whether something was.
func Repaired(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Repaired })
}

// Judge adds a warning where the caller asked for repair, and an error otherwise.
func (l *Faults) Judge(repair bool, rule string, line int, task, cure, format string, args ...any) {
	if repair {
		l.Repaired(rule, line, task, format+": repaired, "+cure, args...)
		return
	}
	l.Fail(rule, line, task, format+" (--repair: "+cure+")", args...)
}

// Ended reports whether the reader gave up before the end.
func (l *Faults) Ended() bool { return l.ended }

func (l *Faults) add(sev Severity, rule string, line int, task, format string, args []any) {
	l.list = append(l.list, Fault{Severity: sev, Rule: rule, Line: line, Task: Printable(task),
		Message: Printable(fmt.Sprintf(format, args...)), Count: 1})
}

// Printable writes a text that comes from a file so that it can be shown within a line: at most MaxMessage bytes.
func Printable(s string) string {
	if len(s) > MaxMessage {
		n := MaxMessage
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return shown.Line(s)
}

// Sorted returns the faults, errors first, each kind by line. A last error says how many more there are.
func (l *Faults) Sorted() []Fault {
	slices.SortStableFunc(l.list, func(a, b Fault) int {
		if a.Severity != b.Severity {
			return int(b.Severity) - int(a.Severity)
		}
		return a.Line - b.Line
	})
	shown := 0
	for shown < len(l.list) && l.list[shown].Severity == Error {
		shown++
	}
	if more := l.errors - shown; more > 0 {
		text := fmt.Sprintf("and %d more errors", more)
		if more == 1 {
			text = "and 1 more error"
		}
		return slices.Insert(l.list, shown, Fault{Severity: Error, Rule: "more", Message: text, Count: 1})
	}
	return l.list
}

// HasErrors reports whether there is an error among them.
func (l *Faults) HasErrors() bool { return l.errors > 0 }

// HasErrors reports whether one of the faults makes the workflow unusable.
func HasErrors(faults []Fault) bool {
	return slices.ContainsFunc(faults, func(f Fault) bool { return f.Severity == Error })
}

// String is the fault as one line of text: "line 12: error cycle: …".
func (f Fault) String() string {
	s := fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Message)
	if f.Line > 0 {
		s = fmt.Sprintf("line %d: %s", f.Line, s)
	}
	if f.Count > 1 {
		s += fmt.Sprintf(" (%d times)", f.Count)
	}
	return s
}
