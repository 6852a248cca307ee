// Package reader has what the readers of all files share: tokenisers for XML, JSON and YAML, faults with their lines, numbers with
// units, and files in any wrapping. It is a leaf.
package reader

import (
	"fmt"
	"slices"
)

// Severity tells errors, which make a workflow unusable, from warnings, for which a stated rule says what is then done.
type Severity uint8

const (
	Warning Severity = iota
	Error
)

func (s Severity) String() string { return [...]string{"warning", "error"}[s] }

// Fault is one thing wrong with a trace file.
type Fault struct {
	Severity Severity
	Rule     string // stable short name, such as "cycle" or "size-differs"
	Line     int    // 1-based, 0 where the format gives none
	Task     string // id, "" if the fault is not one task's
	Message  string // what is wrong and, for a warning, what is then done
	Count    int    // how many times; 1 unless occurrences were merged
}

// MaxPerRule bounds how many errors of one rule are told one by one; what follows only counts.
const MaxPerRule = 20

// Faults collects faults. Warnings of one rule are merged into the first, since real files have thousands of some kinds.
type Faults struct {
	list []Fault
	last map[string]int // severity and rule → index of the fault that further ones are merged into
	seen map[string]int
}

func (l *Faults) Warn(rule string, line int, task, format string, args ...any) {
	l.Add(Warning, 1, rule, line, task, format, args...)
}

func (l *Faults) Fail(rule string, line int, task, format string, args ...any) {
	l.Add(Error, MaxPerRule, rule, line, task, format, args...)
}

// judge is a warning where the caller asked for repair, and an error otherwise.
func (l *Faults) Judge(repair bool, rule string, line int, task, cure, format string, args ...any) {
	if repair {
		l.Add(Warning, MaxPerRule, rule, line, task, format+": repaired, "+cure, args...)
		return
	}
	l.Add(Error, MaxPerRule, rule, line, task, format+" (--repair: "+cure+")", args...)
}

// stopped reports whether the reader gave up before the end.
func (l *Faults) Stopped() bool {
	return l.seen["!truncated"]+l.seen["!syntax"]+l.seen["!bad-archive"] > 0
}

func (l *Faults) Add(sev Severity, most int, rule string, line int, task, format string, args ...any) {
	key := rule
	if sev == Error {
		key = "!" + rule
	}
	if l.seen == nil {
		l.seen, l.last = map[string]int{}, map[string]int{}
	}
	if l.seen[key]++; l.seen[key] > most {
		l.list[l.last[key]].Count++
		return
	}
	l.last[key] = len(l.list)
	l.list = append(l.list, Fault{Severity: sev, Rule: rule, Line: line, Task: task, Message: fmt.Sprintf(format, args...), Count: 1})
}

// sorted returns the faults, errors first, each kind by line.
func (l *Faults) Sorted() []Fault {
	slices.SortStableFunc(l.list, func(a, b Fault) int {
		if a.Severity != b.Severity {
			return int(b.Severity) - int(a.Severity)
		}
		return a.Line - b.Line
	})
	return l.list
}

// HasErrors reports whether there is an error among them.
func (l *Faults) HasErrors() bool { return HasErrors(l.list) }

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
