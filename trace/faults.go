package trace

import (
	"fmt"
	"slices"
)

// maxPerRule bounds how many errors of one rule are told one by one; what follows only counts.
const maxPerRule = 20

// faultList collects faults. Warnings of one rule are merged into the first, since real files have thousands of some kinds.
type faultList struct {
	list []Fault
	last map[string]int // severity and rule → index of the fault that further ones are merged into
	seen map[string]int
}

func (l *faultList) warn(rule string, line int, task, format string, args ...any) {
	l.add(Warning, 1, rule, line, task, format, args...)
}

func (l *faultList) fail(rule string, line int, task, format string, args ...any) {
	l.add(Error, maxPerRule, rule, line, task, format, args...)
}

// judge is a warning where the caller asked for repair, and an error otherwise.
func (l *faultList) judge(repair bool, rule string, line int, task, cure, format string, args ...any) {
	if repair {
		l.add(Warning, maxPerRule, rule, line, task, format+": repaired, "+cure, args...)
		return
	}
	l.add(Error, maxPerRule, rule, line, task, format+" (--repair: "+cure+")", args...)
}

// stopped reports whether the reader gave up before the end.
func (l *faultList) stopped() bool {
	return l.seen["!truncated"]+l.seen["!syntax"]+l.seen["!bad-archive"] > 0
}

func (l *faultList) add(sev Severity, most int, rule string, line int, task, format string, args ...any) {
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
func (l *faultList) sorted() []Fault {
	slices.SortStableFunc(l.list, func(a, b Fault) int {
		if a.Severity != b.Severity {
			return int(b.Severity) - int(a.Severity)
		}
		return a.Line - b.Line
	})
	return l.list
}

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
