package sbatch

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Row is a job as squeue and sacct show it.
type Row struct {
	ID      int64
	ArrayID int64 // 0: not an element of an array
	Index   int   // in the array
	Name    string
	User    string
	UID     int
	Group   string
	State   State
	Reason  string         // why it waits, or ended so; "" if there is nothing to say
	Node    string         // "" before it starts
	Exit    int            // code that its program returned
	Signal  syscall.Signal // that ended its program, which returned none then; 0: none

	Partition, Account, Comment, Command, Dir string

	CPUs      int
	Memory    int64 // limit, bytes; 0: not said
	Peak      int64 // memory that was used, bytes; 0: not known
	CPUTime   time.Duration
	Limit     time.Duration // 0: none
	After     []string      // its dependencies, such as afterok:12
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

// exitCode is how a job ended as sacct of Slurm 22.05 prints it: a code, less 128 from 128 on, and a signal. If a
// program was stopped, its exit code is not that of its job.
func (r *Row) exitCode() string {
	code := r.Exit
	switch {
	case r.State == OutOfMemory:
		return "0:125"
	case r.State != Failed && r.State != Completed:
		return "0:0"
	case r.Signal != 0:
		return fmt.Sprintf("0:%d", r.Signal)
	case code >= 128:
		code -= 128
	case code == 0 && r.State == Failed: // one of several tasks failed, or an output is missing
		code = 1
	}
	return fmt.Sprintf("%d:0", code)
}

// Waited is the exit code of sbatch --wait: that of the job, or 1 if it returned none, or was stopped.
func (r *Row) Waited() int {
	switch {
	case r.State == Completed:
		return 0
	case r.State == OutOfMemory || r.Signal != 0:
		return 1
	}
	return max(1, r.Exit)
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
		err = s.jobs(o.value)
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

// jobID is the number of a job, of an element of an array, or of several elements.
var jobID = regexp.MustCompile(`^(\d+)(?:_(\d+|\*|\[[^\[\]]*\]))?(?:,|$)`)

// jobs reads numbers of jobs, such as 12,13_4,14_[1-3,7-9:2] and 15_*, which is all elements of an array.
func (s *Select) jobs(text string) error {
	for rest := text; ; {
		m := jobID.FindStringSubmatch(rest)
		if m == nil {
			return usagef("%q is no number of a job: write 12, 12_3 or 12_[1-4,7]", text)
		}
		list, several := strings.CutPrefix(m[2], "[")
		elements := []int{-1}
		var err error
		switch {
		case several:
			elements, _, err = indices(strings.TrimSuffix(list, "]"))
		case m[2] != "*" && m[2] != "":
			elements[0], err = strconv.Atoi(m[2])
		}
		if err != nil {
			return usagef("%s: %w", m[0], err)
		}
		d, err := job(m[1], "")
		if err != nil {
			return err
		}
		for _, d.Index = range elements {
			s.Jobs = append(s.Jobs, d)
		}
		if rest = rest[len(m[0]):]; !strings.HasSuffix(m[0], ",") {
			return nil
		}
	}
}

// Queue is a request to squeue.
type Queue struct {
	Ask    Ask
	Select Select
	Header bool
	Notes  []string
	format []field
	long   bool
	layout string // of instants
}

var squeueOptions = []option{
	{long: "account", short: "A", takes: value},
	{long: "all", short: "a"}, // partitions hide nothing here
	{long: "array", short: "r"},
	{long: "array-unique", refuse: "elements of arrays are always listed one by one"},
	{long: "clusters", short: "M", takes: value, refuse: oneHost},
	{long: "federation", refuse: oneHost},
	{long: "format", short: "o", takes: value},
	{long: "Format", short: "O", takes: value},
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

// ParseQueue reads a command line of squeue, without the command's name. Me is the calling user. Variables such as
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
	notes, err := check(opts)
	if err != nil {
		return nil, err
	}
	q.layout, q.Notes = layoutOf(env)
	q.Notes = append(q.Notes, notes...)
	read, format := parseFormat, shortTable
	for _, o := range opts {
		switch o.long {
		case "help", "usage":
			return &Queue{Ask: Help}, nil
		case "version":
			return &Queue{Ask: Version}, nil
		case "noheader":
			q.Header = false
		case "long":
			q.long, read, format = true, parseFormat, longTable
		case "format":
			q.long, read, format = false, parseFormat, o.value
		case "Format":
			q.long, read, format = false, parseLongFormat, o.value
		default:
			if _, err := q.Select.option(o, me); err != nil {
				return nil, usagef("%s: %w", o.name(), err)
			}
		}
	}
	q.format, err = read(format)
	return q, err
}

// longNames are fields of --Format, by the columns of --format that they are.
var longNames = map[string]byte{"account": 'a', "arrayjobid": 'F', "arraytaskid": 'K', "batchhost": 'B', "command": 'o',
	"comment": 'k', "dependency": 'E', "endtime": 'e', "groupname": 'g', "jobarrayid": 'i', "jobid": 'A',
	"mincpus": 'c', "minmemory": 'm', "name": 'j', "nodelist": 'N', "numcpus": 'C', "numnodes": 'D', "partition": 'P',
	"priority": 'p', "prioritylong": 'Q', "qos": 'q', "reason": 'r', "reasonlist": 'R', "starttime": 'S', "state": 'T',
	"statecompact": 't', "submittime": 'V', "timeleft": 'L', "timelimit": 'l', "timeused": 'M', "userid": 'U',
	"username": 'u', "workdir": 'Z'}

// parseLongFormat reads a format such as "JobID:10,State:.8 ,Name": names, with widths, the text between a width and
// the next column, and a dot for columns that are aligned to the right.
func parseLongFormat(format string) (out []field, err error) {
	for part := range strings.SplitSeq(format, ",") {
		name, width, sized := strings.Cut(part, ":")
		c, ok := columns[longNames[strings.ToLower(name)]]
		if !ok {
			return nil, usagef("--Format: field %q is not known; known are %s", name,
				strings.Join(slices.Sorted(maps.Keys(longNames)), " "))
		}
		f := field{col: &c, width: 20}
		if sized {
			width, f.right = strings.TrimPrefix(width, "."), strings.HasPrefix(width, ".")
			suffix := strings.TrimLeft(width, "0123456789")
			if f.width, err = strconv.Atoi("0" + strings.TrimSuffix(width, suffix)); err != nil || f.width > 1<<16 {
				return nil, usagef("--Format: %q is no width", part)
			}
			out = append(out, f, field{text: suffix})
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// field is a part of a format of squeue: text, or a column.
type field struct {
	text  string // where there is no column
	col   *column
	width int // 0: as wide as it is
	right bool
}

// column is a column of squeue, which a letter of the format names.
type column struct {
	title string
	show  func(r *Row, v view) string
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
	'A': {"JOBID", func(r *Row, _ view) string { return strconv.FormatInt(r.ID, 10) }},
	'a': {"ACCOUNT", func(r *Row, _ view) string { return text(r.Account) }},
	'B': {"EXEC_HOST", func(r *Row, _ view) string { return cmp.Or(r.Node, "n/a") }},
	'C': {"CPUS", func(r *Row, _ view) string { return strconv.Itoa(r.CPUs) }},
	'c': {"MIN_CPUS", func(r *Row, _ view) string { return strconv.Itoa(r.CPUs) }},
	'D': {"NODES", func(*Row, view) string { return "1" }},
	'E': {"DEPENDENCY", func(r *Row, _ view) string { return dependencyText(r) }},
	'e': {"END_TIME", func(r *Row, v view) string { return v.stamp(r.end(), "N/A") }},
	'F': {"ARRAY_JOB_ID", func(r *Row, _ view) string { return strconv.FormatInt(cmp.Or(r.ArrayID, r.ID), 10) }},
	'g': {"GROUP", func(r *Row, _ view) string { return text(r.Group) }},
	'i': {"JOBID", func(r *Row, _ view) string { return r.id() }},
	'j': {"NAME", func(r *Row, _ view) string { return r.Name }},
	'K': {"ARRAY_TASK_ID", func(r *Row, _ view) string {
		if r.ArrayID == 0 {
			return "N/A"
		}
		return strconv.Itoa(r.Index)
	}},
	'k': {"COMMENT", func(r *Row, _ view) string { return text(r.Comment) }},
	'L': {"TIME_LEFT", func(r *Row, v view) string { return left(r, v.now) }},
	'l': {"TIME_LIMIT", func(r *Row, _ view) string { return limitText(r.Limit) }},
	'M': {"TIME", func(r *Row, v view) string { return clock(r.ran(v.now)) }},
	'm': {"MIN_MEMORY", func(r *Row, _ view) string { return memoryText(r.Memory) }},
	'N': {"NODELIST", func(r *Row, _ view) string { return r.Node }},
	'o': {"COMMAND", func(r *Row, _ view) string { return text(r.Command) }},
	'P': {"PARTITION", func(r *Row, _ view) string { return r.Partition }},
	// All jobs have the same, as the policy of the server decides the order. 0 would be a job that is held.
	'p': {"PRIORITY", func(*Row, view) string { return "0.00000000023283" }},
	'Q': {"PRIORITY", func(*Row, view) string { return "1" }},
	'q': {"QOS", func(*Row, view) string { return "normal" }},
	'R': {"NODELIST(REASON)", func(r *Row, _ view) string { return where(r) }},
	'r': {"REASON", func(r *Row, _ view) string { return cmp.Or(r.Reason, "None") }},
	'S': {"START_TIME", func(r *Row, v view) string { return v.stamp(r.start(), "N/A") }},
	'T': {"STATE", func(r *Row, _ view) string { return r.State.String() }},
	't': {"ST", func(r *Row, _ view) string { return r.State.Compact() }},
	'U': {"UID", func(r *Row, _ view) string { return strconv.Itoa(r.UID) }},
	'u': {"USER", func(r *Row, _ view) string { return r.User }},
	'V': {"SUBMIT_TIME", func(r *Row, v view) string { return v.stamp(r.Submitted, "N/A") }},
	'Z': {"WORK_DIR", func(r *Row, _ view) string { return r.Dir }},
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

// Print writes the answer of squeue: the selected rows, waiting jobs first, then running ones.
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
		q.line(&b, func(c *column) string { return c.show(&meant[i], view{now, q.layout}) })
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
