package sbatch

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Row is a job as squeue and sacct show it.
type Row struct {
	About
	ID      int64
	ArrayID int64 // 0: not an element of an array
	Index   int   // in the array
	User    string
	UID     int
	State   State
	By      *int           // the user that cancelled it; nil: nobody did
	Reason  string         // why it waits, or ended so; "" if there is nothing to say
	Node    string         // "" before it starts
	Exit    int            // code that its program returned
	Signal  syscall.Signal // that ended its program, which returned none then; 0: none

	Peak      int64 // memory that was used, bytes; 0: not known
	CPUTime   time.Duration
	After     []string // its dependencies, such as afterok:12
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

// begins is when a job began or is expected to, and after all others if that is not known.
func (r *Row) begins() time.Time {
	switch {
	case !r.Started.IsZero():
		return r.Started
	case r.Begins.IsZero():
		return time.Unix(1<<40, 0)
	}
	return r.Begins
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

// jobID is the number of a job, of an element of an array, or of several elements.
var jobID = regexp.MustCompile(`^(\d+)(?:_(\d+|\*|\[[^\[\]]*\]))?(?:,|$)`)

// jobs reads numbers of jobs, such as 12,13_4,14_[1-3,7-9:2] and 15_*, which is all elements of an array.
func (s *Select) jobs(text string) error {
	for rest := text; ; {
		m := jobID.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("%q is no number of a job: write 12, 12_3 or 12_[1-4,7]", text)
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
			return fmt.Errorf("%s: %w", m[0], err)
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
	Request
	Header bool
	format []field
	long   bool
	start  bool   // by the expected start
	layout string // of instants
}

const (
	shortTable = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	longTable  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	startTable = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
)

// ParseQueue reads a command line of squeue, without the command's name. Me is the calling user. Variables such as
// SQUEUE_FORMAT stand for options.
func ParseQueue(args []string, me string, env func(string) (string, bool)) (*Queue, error) {
	opts, err := only(squeueOptions, args)
	if err != nil {
		return nil, err
	}
	// An option takes the place of its variable; lists would add up otherwise.
	before := slices.DeleteFunc(fromEnv(squeueOptions, squeueVariables, env), func(o given) bool {
		return has(opts, o.long)
	})
	q := &Queue{Header: true}
	q.Select.States = map[State]bool{Pending: true, Running: true, Suspended: true}
	q.layout, q.Notes = layoutOf(env)
	c := &call{Request: &q.Request, Queue: q, me: me, format: shortTable, parse: parseFormat}
	if q.start = has(opts, "start"); q.start {
		q.Select.States, c.format = map[State]bool{Pending: true}, startTable
	}
	if err := c.take(append(before, opts...)); err != nil || q.Ask != Submit {
		return q, err
	}
	q.format, err = c.parse(c.format)
	return q, err
}

// parseLongFormat reads a format such as "JobID:10,State:.8 ,Name": names, with widths, the text between a width and
// the next column, and a dot for columns that are aligned to the right.
func parseLongFormat(format string) (out []field, err error) {
	for part := range strings.SplitSeq(format, ",") {
		name, width, sized := strings.Cut(part, ":")
		f, err := fieldOf("--Format", name, func(c column) string { return c.long })
		if err != nil {
			return nil, err
		}
		if f.width = 20; sized {
			width, f.right = strings.TrimPrefix(width, "."), strings.HasPrefix(width, ".")
			suffix := strings.TrimLeft(width, "0123456789")
			if f.width, err = strconv.Atoi("0" + strings.TrimSuffix(width, suffix)); err != nil || f.width > 1<<16 {
				return nil, fmt.Errorf("--Format: %q is no width", part)
			}
			out = append(out, f, field{text: suffix})
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// fieldOf is the column that a format names.
func fieldOf(option, name string, of func(c column) string) (f field, err error) {
	at := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(of(c), name) })
	if at < 0 || name == "" {
		return f, fmt.Errorf("%s: field %q is not known; known are %s", option, name, known(of))
	}
	return field{col: &columns[at]}, nil
}

// field is a part of a format of squeue or sacct: text, or a column.
type field struct {
	text  string // where there is no column
	col   *column
	width int // 0: as wide as it is
	right bool
}

// formatPart is a part of a format of squeue. Slurm leaves %% out.
var formatPart = regexp.MustCompile(`(?s)%%|%(\.?)(\d*)(.?)|[^%]+`)

// parseFormat reads a format such as "%.18i %t", or "%all", which is all of them with bars between.
func parseFormat(format string) (out []field, err error) {
	if strings.EqualFold(format, "%all") {
		format = strings.ReplaceAll(known(func(c column) string { return c.letter }), " ", "|")
	}
	for _, m := range formatPart.FindAllStringSubmatch(format, -1) {
		if m[0] == "%%" {
			continue
		} else if m[0][0] != '%' {
			out = append(out, field{text: m[0]})
			continue
		}
		f := field{right: m[1] != ""}
		if f.width, err = strconv.Atoi("0" + m[2]); err != nil || f.width > 1<<16 {
			return nil, fmt.Errorf("--format: width %s is too large", m[2])
		}
		if m[3] == "" {
			return nil, fmt.Errorf("--format %q ends in %%", format)
		}
		at := slices.IndexFunc(columns, func(c column) bool { return c.letter == "%"+m[3] })
		if at < 0 {
			return nil, fmt.Errorf("--format: %%%s is not known; known are %s", m[3],
				known(func(c column) string { return c.letter }))
		}
		f.col = &columns[at]
		out = append(out, f)
	}
	return out, nil
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
		if at, bt := a.begins(), b.begins(); q.start && !at.Equal(bt) {
			return at.Compare(bt)
		}
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
	for i := range meant {
		q.line(&b, func(c *column) string { return c.show(&meant[i], view{now, q.layout, "N/A", "(null)"}) })
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
	switch {
	case width == 0:
		return s
	case right:
		return fmt.Sprintf("%*.*s", width, width, s)
	}
	return fmt.Sprintf("%-*.*s", width, width, s)
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

// Cancel is a request to scancel.
type Cancel struct {
	Request
	Quiet bool
}

// ParseCancel reads a command line of scancel, without the command's name. Unlike that of C, it takes options after
// jobs, too.
func ParseCancel(args []string, me string) (*Cancel, error) {
	x := &Cancel{}
	c := &call{Request: &x.Request, Cancel: x, me: me}
	var jobs []string
	for len(args) > 0 {
		opts, rest, err := getopt(scancelOptions, args)
		if err == nil {
			err = c.take(opts)
		}
		if err != nil || x.Ask != Submit {
			return x, err
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0][0] != '-') {
			jobs, rest = append(jobs, rest[0]), rest[1:]
		}
		args = rest
	}
	for _, job := range jobs {
		if err := x.Select.jobs(job); err != nil {
			return nil, err
		}
	}
	s := &x.Select
	if s.Jobs == nil && s.States == nil && len(s.Users)+len(s.Partitions)+len(s.Accounts)+len(s.Names) == 0 {
		return nil, fmt.Errorf("no job is named")
	}
	return x, nil
}

// State is how far a job is, as Slurm names it.
type State uint8

const (
	Pending State = iota
	Running
	Suspended
	Completed
	Cancelled
	Failed
	Timeout
	NodeFail
	Preempted
	OutOfMemory
)

type stateName struct{ long, compact string }

// states are the names of states, long and compact. Those after the constants never happen here, but may be asked for.
var states = []stateName{
	{"PENDING", "PD"}, {"RUNNING", "R"}, {"SUSPENDED", "S"}, {"COMPLETED", "CD"}, {"CANCELLED", "CA"}, {"FAILED", "F"},
	{"TIMEOUT", "TO"}, {"NODE_FAIL", "NF"}, {"PREEMPTED", "PR"}, {"OUT_OF_MEMORY", "OOM"},
	{"BOOT_FAIL", "BF"}, {"DEADLINE", "DL"}, {"COMPLETING", "CG"}, {"CONFIGURING", "CF"}, {"RESIZING", "RS"},
	{"RESV_DEL_HOLD", "RD"}, {"REQUEUED", "RQ"}, {"REQUEUE_FED", "RF"}, {"REQUEUE_HOLD", "RH"}, {"REVOKED", "RV"},
	{"SIGNALING", "SI"}, {"SPECIAL_EXIT", "SE"}, {"STAGE_OUT", "SO"}, {"STOPPED", "ST"},
}

func (s State) String() string { return states[s].long }

// Compact is the short name of a state, such as PD.
func (s State) Compact() string { return states[s].compact }

// Ended reports whether a job in that state is over.
func (s State) Ended() bool { return s > Suspended }

// stateSet reads a list of states. All is nil.
func stateSet(text string) (map[State]bool, error) {
	out := map[State]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToUpper(name)
		if name == "ALL" {
			return nil, nil
		}
		at := slices.IndexFunc(states, func(s stateName) bool { return name == s.long || name == s.compact })
		if at < 0 {
			var all []string
			for _, s := range states {
				all = append(all, s.long)
			}
			return nil, fmt.Errorf("state %q is not known; states are %s", name, strings.Join(all, ", "))
		}
		out[State(at)] = true
	}
	return out, nil
}
