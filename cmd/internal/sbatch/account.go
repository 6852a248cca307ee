package sbatch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Account is a request to sacct.
type Account struct {
	Ask    Ask
	Select Select
	Header bool
	Notes  []string
	// Since and Until bound when jobs were there; zero: not said.
	Since, Until time.Time
	format       []accountField
	layout       string // of instants
	delimiter    string // "": a table
	trailing     bool   // a delimiter at the end of a line
}

var sacctOptions = []option{
	{long: "account", short: "A", takes: value},
	{long: "allocations", short: "X"}, // a job has no steps
	{long: "allusers", short: "a"},
	{long: "brief", short: "b"},
	{long: "clusters", short: "M", takes: value},
	{long: "completion", short: "c", refuse: "gantry show has what was measured"},
	{long: "delimiter", takes: value},
	{long: "duplicates", short: "D"},
	{long: "endtime", short: "E", takes: value},
	{long: "format", short: "o", takes: value},
	{long: "help", short: "h"},
	{long: "helpformat", short: "e"},
	{long: "jobs", short: "j", takes: value},
	{long: "long", short: "l", refuse: "name the fields: --format=JobID,State,ExitCode"},
	{long: "name", takes: value},
	{long: "noconvert"},
	{long: "noheader", short: "n"},
	{long: "parsable", short: "p"},
	{long: "parsable2", short: "P"},
	{long: "partition", short: "r", takes: value},
	{long: "starttime", short: "S", takes: value},
	{long: "state", short: "s", takes: value},
	{long: "uid", short: "u", takes: value},
	{long: "usage"},
	{long: "user", takes: value},
	{long: "units", takes: value, refuse: "amounts of memory are in KB, with a K"},
	{long: "verbose", short: "v"},
	{long: "version", short: "V"},
	{long: "wckeys", short: "W", takes: value, refuse: noAccounts},
	{long: "json", refuse: "gantry queue --json has all that gantry knows"},
}

type accountField struct {
	*accountColumn
	width int
	left  bool
}

// accountColumn is a field of sacct with the width that it has in a table.
type accountColumn struct {
	title string
	width int
	show  func(r *Row, v view) string
}

var accountColumns = []accountColumn{
	{"Account", 10, func(r *Row, _ view) string { return r.Account }},
	{"AllocCPUS", 10, func(r *Row, _ view) string { return allocated(r) }},
	{"AllocNodes", 10, func(r *Row, _ view) string { return min(allocated(r), "1") }},
	{"Comment", 14, func(r *Row, _ view) string { return r.Comment }},
	{"CPUTimeRAW", 10, func(r *Row, v view) string {
		return strconv.FormatInt(int64(r.ran(v.now)/time.Second)*int64(r.CPUs), 10)
	}},
	// The highest code of job steps, of which there are none.
	{"DerivedExitCode", 15, func(*Row, view) string { return "0:0" }},
	{"Elapsed", 10, func(r *Row, v view) string { return longClock(r.ran(v.now)) }},
	{"ElapsedRaw", 10, func(r *Row, v view) string {
		return strconv.FormatInt(int64(r.ran(v.now)/time.Second), 10)
	}},
	{"End", 19, func(r *Row, v view) string { return v.stamp(r.Ended, "Unknown") }},
	{"ExitCode", 8, func(r *Row, _ view) string { return r.exitCode() }},
	{"Group", 9, func(r *Row, _ view) string { return r.Group }},
	{"JobID", 12, func(r *Row, _ view) string { return r.id() }},
	{"JobIDRaw", 12, func(r *Row, _ view) string { return strconv.FormatInt(r.ID, 10) }},
	{"JobName", 10, func(r *Row, _ view) string { return r.Name }},
	{"MaxRSS", 10, func(r *Row, _ view) string {
		peak := r.Peak
		if r.Memory > 0 { // the kernel may count a few pages more than there were
			peak = min(peak, r.Memory)
		}
		if peak == 0 {
			return ""
		}
		return fmt.Sprintf("%dK", (peak+1023)>>10)
	}},
	{"NCPUS", 10, func(r *Row, _ view) string { return allocated(r) }},
	{"NNodes", 8, func(*Row, view) string { return "1" }},
	{"NodeList", 15, func(r *Row, _ view) string { return cmp.Or(r.Node, "None assigned") }},
	{"Partition", 10, func(r *Row, _ view) string { return r.Partition }},
	{"QOS", 10, func(*Row, view) string { return "normal" }},
	{"Reason", 22, func(r *Row, _ view) string { return cmp.Or(r.Reason, "None") }},
	{"ReqCPUS", 8, func(r *Row, _ view) string { return strconv.Itoa(r.CPUs) }},
	{"ReqMem", 10, func(r *Row, _ view) string { return memoryText(r.Memory) }},
	{"Start", 19, func(r *Row, v view) string { return v.stamp(r.Started, "Unknown") }},
	{"State", 10, func(r *Row, _ view) string { return r.State.String() }},
	{"Submit", 19, func(r *Row, v view) string { return v.stamp(r.Submitted, "Unknown") }},
	{"Timelimit", 10, func(r *Row, _ view) string {
		if r.Limit == 0 {
			return "UNLIMITED"
		}
		return longClock(r.Limit)
	}},
	{"TotalCPU", 10, func(r *Row, _ view) string { return longClock(r.CPUTime) }},
	{"UID", 6, func(r *Row, _ view) string { return strconv.Itoa(r.UID) }},
	{"User", 9, func(r *Row, _ view) string { return r.User }},
	{"WorkDir", 20, func(r *Row, _ view) string { return r.Dir }},
}

// allocated is how many CPUs a job has or had.
func allocated(r *Row) string {
	if r.Started.IsZero() {
		return "0"
	}
	return strconv.Itoa(r.CPUs)
}

// longClock writes a time as sacct does: 00:01:00, 2-03:00:00.
func longClock(d time.Duration) string {
	s := int64(d / time.Second)
	out := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		out = fmt.Sprintf("%d-%s", days, out)
	}
	return out
}

const (
	accountTable = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	accountBrief = "JobID,State,ExitCode"
)

// Fields are the names of the fields that sacct can print.
func Fields() string {
	var names []string
	for _, c := range accountColumns {
		names = append(names, c.title)
	}
	return strings.Join(names, " ")
}

// ParseAccount reads a command line of sacct, without the command's name. Me is the calling user.
func ParseAccount(args []string, me string, env func(string) (string, bool), now time.Time) (*Account, error) {
	opts, rest, err := getopt(sacctOptions, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, usagef("%q is no option", rest[0])
	}
	a := &Account{Header: true}
	notes, err := check(opts)
	if err != nil {
		return nil, err
	}
	a.layout, a.Notes = layoutOf(env)
	a.Notes = append(a.Notes, notes...)
	format, delimiter, parsable, everybody := accountTable, "|", false, false
	for _, o := range opts {
		var err error
		switch o.long {
		case "help", "usage", "helpformat":
			return &Account{Ask: Help}, nil
		case "version":
			return &Account{Ask: Version}, nil
		case "allusers":
			everybody = true
		case "brief":
			format = accountBrief
		case "clusters":
			if o.value != "all" && o.value != "gantry" {
				err = usagef("%q: %s", o.value, oneHost)
			}
		case "delimiter":
			delimiter = o.value
		case "endtime":
			a.Until, err = instant(o.value, now)
		case "format":
			format = o.value
		case "noheader":
			a.Header = false
		case "parsable":
			parsable, a.trailing = true, true
		case "parsable2":
			parsable, a.trailing = true, false
		case "starttime":
			a.Since, err = instant(o.value, now)
		default:
			_, err = a.Select.option(o, me)
		}
		if err != nil {
			return nil, usagef("%s: %w", o.name(), err)
		}
	}
	if len(a.Select.Users) == 0 && !everybody {
		a.Select.Users = []string{me}
	}
	if parsable {
		a.delimiter = delimiter
	}
	if a.Since.IsZero() && a.Select.Jobs == nil && a.Select.States == nil {
		y, m, d := now.Date()
		a.Since = time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	}
	return a, a.fields(format)
}

// fields reads a list such as JobID,State%20.
func (a *Account) fields(format string) error {
	for part := range strings.SplitSeq(format, ",") {
		if strings.EqualFold(part, "all") {
			part = strings.ReplaceAll(Fields(), " ", ",")
			if err := a.fields(part); err != nil {
				return err
			}
			continue
		}
		name, widthText, sized := strings.Cut(part, "%")
		at := slices.IndexFunc(accountColumns, func(c accountColumn) bool { return strings.EqualFold(c.title, name) })
		if at < 0 {
			return usagef("--format: field %q is not known; known are %s", name, Fields())
		}
		f := accountField{accountColumn: &accountColumns[at], width: accountColumns[at].width}
		if sized {
			var err error
			widthText, f.left = strings.TrimPrefix(widthText, "-"), strings.HasPrefix(widthText, "-")
			if f.width, err = strconv.Atoi(widthText); err != nil || f.width <= 0 || f.width > 1<<16 {
				return usagef("--format: %q is no width", part)
			}
		}
		// Slurm writes numbers of jobs from the left.
		f.left = f.left || strings.HasPrefix(f.title, "JobID")
		a.format = append(a.format, f)
	}
	return nil
}

// instant reads a time: now, now-2days, 2026-11-23, 2026-11-23T10:00 or 10:00:00.
func instant(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if back, ok := strings.CutPrefix(text, "now-"); ok {
		digits := strings.TrimRight(back, "abcdefghijklmnopqrstuvwxyz")
		unit, known := map[string]time.Duration{"": time.Second, "second": time.Second, "minute": time.Minute,
			"hour": time.Hour, "day": 24 * time.Hour,
			"week": 7 * 24 * time.Hour}[strings.TrimSuffix(back[len(digits):], "s")]
		if n, err := strconv.ParseUint(digits, 10, 20); err == nil && known {
			return now.Add(-time.Duration(n) * unit), nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q: write now, now-2days, 2026-11-23 or 2026-11-23T10:00:00", text)
}

// Print writes the answer of sacct: those of the rows that are meant.
func (a *Account) Print(w io.Writer, rows []Row, now time.Time) error {
	var b strings.Builder
	line := func(show func(accountField) string, fill bool) {
		for i, f := range a.format {
			cell := oneLine(show(f))
			switch {
			case a.delimiter == "" && fill:
				b.WriteString(cell + " ")
			case a.delimiter == "":
				b.WriteString(cut(cell, f) + " ")
			default:
				b.WriteString(cell)
				if i < len(a.format)-1 || a.trailing {
					b.WriteString(a.delimiter)
				}
			}
		}
		b.WriteByte('\n')
	}
	if a.Header {
		line(func(f accountField) string { return f.title }, false)
		if a.delimiter == "" {
			line(func(f accountField) string { return strings.Repeat("-", f.width) }, true)
		}
	}
	for i := range rows {
		r := &rows[i]
		// A job that was there at some time between Since and Until.
		if !a.Select.Match(r) || !a.Since.IsZero() && r.State.Ended() && r.Ended.Before(a.Since) ||
			!a.Until.IsZero() && r.Submitted.After(a.Until) {
			continue
		}
		line(func(f accountField) string { return f.show(r, view{now, a.layout}) }, false)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cut makes a cell as wide as its column; a longer cell ends in a plus sign, as in sacct.
func cut(cell string, f accountField) string {
	if runes := []rune(cell); len(runes) > f.width {
		return string(runes[:f.width-1]) + "+"
	}
	return fit(cell, f.width, !f.left)
}
