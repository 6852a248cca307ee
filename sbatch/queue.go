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

// Row is a job as squeue and sacct show it.
type Row struct {
	ID       int64
	ArrayID  int64 // 0: not an element of an array
	Index    int   // in the array
	Name     string
	User     string
	UID      int
	Group    string
	State    State
	Reason   string // why it waits, or ended so; "" if there is nothing to say
	Node     string // "" before it starts
	ExitCode int
	Signal   int // that ended it; 0: none

	Partition, Account, Comment, Command, Dir string

	CPUs      int
	Memory    int64 // limit, bytes; 0: not said
	Peak      int64 // memory that was used, bytes; 0: not known
	CPUTime   time.Duration
	Limit     time.Duration // 0: none
	After     []string      // what it waits for, such as afterok:12
	Submitted time.Time
	Started   time.Time // zero: not yet
	Ended     time.Time // zero: not yet
	Begins    time.Time // when a job that waits is expected to start; zero: not known
	Ends      time.Time // when it is expected to end; zero: not known
}

// Name of a job for people, and for squeue's %i.
func (r *Row) id() string {
	if r.ArrayID != 0 {
		return fmt.Sprintf("%d_%d", r.ArrayID, r.Index)
	}
	return strconv.FormatInt(r.ID, 10)
}

// Is reports whether d names the job: its number, its array or its element.
func (r *Row) Is(d Dependency) bool {
	if d.Index >= 0 {
		return r.ArrayID == d.ID && r.Index == d.Index && r.ArrayID != 0
	}
	return r.ID == d.ID || r.ArrayID == d.ID
}

// Ran is how long a job has run at an instant.
func (r *Row) ran(now time.Time) time.Duration {
	switch {
	case r.Started.IsZero():
		return 0
	case !r.Ended.IsZero():
		return r.Ended.Sub(r.Started)
	}
	return max(0, now.Sub(r.Started))
}

// Select is which jobs are meant. The zero value is all.
type Select struct {
	Jobs       []Dependency
	States     map[State]bool // nil: all
	Users      []string       // names or numbers
	Partitions []string
	Accounts   []string
	Names      []string
}

// Ended reports whether jobs that are over may be meant.
func (s *Select) Ended() bool {
	for state := range s.States {
		if state.Ended() {
			return true
		}
	}
	return s.States == nil
}

// Match reports whether a job is meant.
func (s *Select) Match(r *Row) bool {
	in := func(list []string, texts ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(texts, func(t string) bool { return slices.Contains(list, t) })
	}
	return (s.States == nil || s.States[r.State]) && in(s.Users, r.User, strconv.Itoa(r.UID)) &&
		in(s.Partitions, r.Partition) && in(s.Accounts, r.Account) && in(s.Names, r.Name) &&
		(s.Jobs == nil || slices.ContainsFunc(s.Jobs, r.Is))
}

// selection reads the options that squeue, scancel and sacct share. It reports whether o is one of them.
func (s *Select) option(o given, me string) (ok bool, err error) {
	list := func(to *[]string) { *to = append(*to, strings.Split(o.value, ",")...) }
	switch o.long {
	case "jobs", "job":
		for part := range strings.SplitSeq(o.value, ",") {
			d, err := JobID(part)
			if err != nil {
				return true, err
			}
			s.Jobs = append(s.Jobs, d)
		}
	case "states", "state":
		s.States, err = stateSet(o.value)
	case "user", "users", "uid":
		list(&s.Users)
	case "me":
		s.Users = append(s.Users, me)
	case "partition", "partitions":
		list(&s.Partitions)
	case "account", "accounts":
		list(&s.Accounts)
	case "name":
		list(&s.Names)
	default:
		return false, nil
	}
	return true, err
}

// JobID reads the number of a job, such as 12, or of an element of an array, such as 12_3.
func JobID(text string) (Dependency, error) {
	m := dependency.FindStringSubmatch(text)
	if m == nil || m[3] != "" {
		return Dependency{}, usagef("%q is no number of a job", text)
	}
	return job(m[1], m[2])
}

// Queue is what squeue was asked.
type Queue struct {
	Ask    Ask
	Select Select
	Header bool
	Notes  []string
	format []field
	long   bool
}

var squeueOptions = []option{
	{long: "account", short: "A", takes: value},
	{long: "all", short: "a"}, // partitions hide nothing here
	{long: "array", short: "r"},
	{long: "array-unique", refuse: "elements of arrays are always listed one by one"},
	{long: "clusters", short: "M", takes: value, refuse: oneHost},
	{long: "federation", refuse: oneHost},
	{long: "format", short: "o", takes: value},
	{long: "Format", short: "O", takes: value, refuse: "use --format, as in -o '%i %T'"},
	{long: "help"},
	{long: "hide"},
	{long: "iterate", short: "i", takes: value, refuse: "use watch squeue, or gantry's live page"},
	{long: "jobs", short: "j", takes: value},
	{long: "json", refuse: "gantry queue --json has all that gantry knows"},
	{long: "licenses", short: "L", takes: value, refuse: "gantry counts no licenses"},
	{long: "local"},
	{long: "long", short: "l"},
	{long: "me"},
	{long: "name", short: "n", takes: value},
	{long: "noconvert", refuse: "amounts of memory have units"},
	{long: "nodelist", short: "w", takes: value, refuse: oneHost},
	{long: "noheader", short: "h"},
	{long: "only-job-state"}, // of later versions of Slurm: it makes the answer cheaper there
	{long: "partition", short: "p", takes: value},
	{long: "priority", short: "P"},
	{long: "qos", short: "q", takes: value, refuse: noAccounts},
	{long: "reservation", short: "R", takes: value, refuse: oneHost},
	{long: "sibling", refuse: oneHost},
	{long: "sort", short: "S", takes: value, refuse: "pipe the answer into sort"},
	{long: "start", refuse: "use --format with %S, or gantry queue"},
	{long: "states", short: "t", takes: value},
	{long: "steps", short: "s", takes: optional, refuse: noSteps},
	{long: "usage"},
	{long: "user", short: "u", takes: value},
	{long: "verbose", short: "v"},
	{long: "version", short: "V"},
	{long: "yaml", refuse: "gantry queue --json has all that gantry knows"},
}

const (
	shortTable = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	longTable  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
)

// ParseQueue reads a command line of squeue, without the command's name. Me is the user who calls. Variables such as
// SQUEUE_FORMAT stand for options.
func ParseQueue(args []string, me string, env func(string) (string, bool)) (*Queue, error) {
	opts, rest, err := getopt(squeueOptions, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, usagef("%q is no option", rest[0])
	}
	var before []given
	for _, v := range []struct{ name, long string }{{"SQUEUE_ACCOUNT", "account"}, {"SQUEUE_FORMAT", "format"},
		{"SQUEUE_NAMES", "name"}, {"SQUEUE_PARTITION", "partition"}, {"SQUEUE_STATES", "states"},
		{"SQUEUE_USERS", "user"}, {"SQUEUE_SORT", "sort"}, {"SLURM_CLUSTERS", "clusters"}} {
		// An option takes the place of its variable; lists would add up otherwise.
		if text, ok := env(v.name); ok && !has(opts, v.long) {
			o, err := long(squeueOptions, v.long)
			if err != nil {
				return nil, err
			}
			before = append(before, given{o, text})
		}
	}
	opts = append(before, opts...)
	q := &Queue{Header: true, Select: Select{States: map[State]bool{Pending: true, Running: true, Suspended: true}}}
	if q.Notes, err = check(opts); err != nil {
		return nil, err
	}
	format := shortTable
	for _, o := range opts {
		switch o.long {
		case "help", "usage":
			return &Queue{Ask: Help}, nil
		case "version":
			return &Queue{Ask: Version}, nil
		case "noheader":
			q.Header = false
		case "long":
			q.long, format = true, longTable
		case "format":
			q.long, format = false, o.value
		default:
			if _, err := q.Select.option(o, me); err != nil {
				return nil, usagef("%s: %w", o.name(), err)
			}
		}
	}
	q.format, err = parseFormat(format)
	return q, err
}

// field is a part of a format of squeue: text, or a column.
type field struct {
	text  string // where there is no column
	col   *column
	width int // 0: as wide as it is
	right bool
}

// column is what a letter stands for.
type column struct {
	title string
	show  func(r *Row, now time.Time) string
}

// parseFormat reads a format such as "%.18i %t".
func parseFormat(format string) (out []field, err error) {
	literal := func(text string) {
		if n := len(out); n > 0 && out[n-1].col == nil {
			out[n-1].text += text
			return
		}
		out = append(out, field{text: text})
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			literal(format[i : i+1])
			continue
		}
		f, k := field{}, i+1
		if k < len(format) && format[k] == '%' { // Slurm leaves both out
			i = k
			continue
		}
		if k < len(format) && format[k] == '.' {
			f.right = true
			k++
		}
		digits := k
		for k < len(format) && format[k] >= '0' && format[k] <= '9' {
			k++
		}
		if k > digits {
			if f.width, err = strconv.Atoi(format[digits:k]); err != nil || f.width > 1<<16 {
				return nil, usagef("--format: width %s is too large", format[digits:k])
			}
		}
		if k == len(format) {
			return nil, usagef("--format %q ends in %%", format)
		}
		c, ok := columns[format[k]]
		if !ok {
			return nil, usagef("--format: %%%c is not known; known are %s", format[k], knownColumns())
		}
		f.col = &c
		out = append(out, f)
		i = k
	}
	return out, nil
}

func knownColumns() string {
	var all []string
	for c := range columns {
		all = append(all, "%"+string(rune(c)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// stamp writes an instant as Slurm does.
func stamp(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.Local().Format("2006-01-02T15:04:05")
}

// text is a value of Slurm's that may not be there.
func text(s string) string { return cmp.Or(s, "(null)") }

// where is squeue's last column: the node, or why a job waits or failed.
func where(r *Row) string {
	switch r.State {
	case Pending, Failed, Timeout, OutOfMemory:
		return "(" + cmp.Or(r.Reason, "None") + ")"
	}
	return r.Node
}

var columns = map[byte]column{
	'A': {"JOBID", func(r *Row, _ time.Time) string { return strconv.FormatInt(r.ID, 10) }},
	'a': {"ACCOUNT", func(r *Row, _ time.Time) string { return text(r.Account) }},
	'B': {"EXEC_HOST", func(r *Row, _ time.Time) string { return cmp.Or(r.Node, "n/a") }},
	'C': {"CPUS", func(r *Row, _ time.Time) string { return strconv.Itoa(r.CPUs) }},
	'c': {"MIN_CPUS", func(r *Row, _ time.Time) string { return strconv.Itoa(r.CPUs) }},
	'D': {"NODES", func(*Row, time.Time) string { return "1" }},
	'E': {"DEPENDENCY", func(r *Row, _ time.Time) string { return dependencyText(r) }},
	'e': {"END_TIME", func(r *Row, _ time.Time) string { return stamp(r.end(), "N/A") }},
	'F': {"ARRAY_JOB_ID", func(r *Row, _ time.Time) string { return strconv.FormatInt(cmp.Or(r.ArrayID, r.ID), 10) }},
	'g': {"GROUP", func(r *Row, _ time.Time) string { return text(r.Group) }},
	'i': {"JOBID", func(r *Row, _ time.Time) string { return r.id() }},
	'j': {"NAME", func(r *Row, _ time.Time) string { return r.Name }},
	'K': {"ARRAY_TASK_ID", func(r *Row, _ time.Time) string {
		if r.ArrayID == 0 {
			return "N/A"
		}
		return strconv.Itoa(r.Index)
	}},
	'k': {"COMMENT", func(r *Row, _ time.Time) string { return text(r.Comment) }},
	'L': {"TIME_LEFT", func(r *Row, now time.Time) string { return left(r, now) }},
	'l': {"TIME_LIMIT", func(r *Row, _ time.Time) string { return limitText(r.Limit) }},
	'M': {"TIME", func(r *Row, now time.Time) string { return clock(r.ran(now)) }},
	'm': {"MIN_MEMORY", func(r *Row, _ time.Time) string { return memoryText(r.Memory) }},
	'N': {"NODELIST", func(r *Row, _ time.Time) string { return r.Node }},
	'o': {"COMMAND", func(r *Row, _ time.Time) string { return text(r.Command) }},
	'P': {"PARTITION", func(r *Row, _ time.Time) string { return r.Partition }},
	'R': {"NODELIST(REASON)", func(r *Row, _ time.Time) string { return where(r) }},
	'r': {"REASON", func(r *Row, _ time.Time) string { return cmp.Or(r.Reason, "None") }},
	'S': {"START_TIME", func(r *Row, _ time.Time) string { return stamp(r.start(), "N/A") }},
	'T': {"STATE", func(r *Row, _ time.Time) string { return r.State.String() }},
	't': {"ST", func(r *Row, _ time.Time) string { return r.State.Compact() }},
	'U': {"UID", func(r *Row, _ time.Time) string { return strconv.Itoa(r.UID) }},
	'u': {"USER", func(r *Row, _ time.Time) string { return r.User }},
	'V': {"SUBMIT_TIME", func(r *Row, _ time.Time) string { return stamp(r.Submitted, "N/A") }},
	'Z': {"WORK_DIR", func(r *Row, _ time.Time) string { return r.Dir }},
}

func (r *Row) start() time.Time {
	if !r.Started.IsZero() {
		return r.Started
	}
	return r.Begins
}

func (r *Row) end() time.Time {
	if !r.Ended.IsZero() {
		return r.Ended
	}
	return r.Ends
}

func left(r *Row, now time.Time) string {
	if r.Limit == 0 {
		return "UNLIMITED"
	}
	return clock(max(0, r.Limit-r.ran(now)))
}

func dependencyText(r *Row) string {
	if len(r.After) == 0 || r.State != Pending {
		return "(null)"
	}
	var out []string
	for _, after := range r.After {
		out = append(out, after+"(unfulfilled)")
	}
	return strings.Join(out, ",")
}

// Print writes the answer of squeue: those of the rows that are meant, what waits first, then what runs.
func (q *Queue) Print(w io.Writer, rows []Row, now time.Time) error {
	var b strings.Builder
	if q.Header {
		if q.long {
			fmt.Fprintln(&b, now.Local().Format("Mon Jan 02 15:04:05 2006"))
		}
		q.line(&b, func(c *column) string { return c.title })
	}
	meant := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !q.Select.Match(&r) })
	slices.SortStableFunc(meant, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
	for i := range meant {
		q.line(&b, func(c *column) string { return c.show(&meant[i], now) })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (q *Queue) line(b *strings.Builder, show func(*column) string) {
	for _, f := range q.format {
		if f.col == nil {
			b.WriteString(f.text)
			continue
		}
		b.WriteString(fit(oneLine(show(f.col)), f.width, f.right))
	}
	b.WriteByte('\n')
}

// fit makes a text as wide as a column; 0 leaves it as it is.
func fit(s string, width int, right bool) string {
	runes := []rune(s)
	switch {
	case width == 0:
		return s
	case len(runes) > width:
		return string(runes[:width])
	}
	pad := strings.Repeat(" ", width-len(runes))
	if right {
		return pad + s
	}
	return s + pad
}

// oneLine keeps names of others from writing lines, or commands for the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
