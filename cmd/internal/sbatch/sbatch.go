// Package sbatch is the language of Slurm's commands as far as gantry speaks it: the options and scripts of sbatch, the
// shell program that a job becomes, and the requests and output of squeue, scancel and sacct. It follows Slurm 22.05,
// by recorded dialogues (testdata). Options that gantry cannot honour are refused by name, or reported where a job runs
// as well without them. The package is pure, and a leaf.
package sbatch

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxScript bounds the bytes of a script, well below the kernel's limit for the arguments of a program.
const MaxScript = 1 << 20

// About has the properties of a submitted job that squeue and sacct show.
type About struct {
	Name      string        `json:"name"`
	Partition string        `json:"partition,omitempty"`
	Account   string        `json:"account,omitempty"`
	Comment   string        `json:"comment,omitempty"`
	Command   string        `json:"command,omitempty"` // the script as it was given; "": by standard input or --wrap
	Dir       string        `json:"dir"`               // absolute: it runs there, and may write to nothing else
	CPUs      int           `json:"cpus"`              // of the whole job
	Memory    int64         `json:"memory,omitempty"`  // bytes of the whole job; 0: not said
	Limit     time.Duration `json:"limit,omitempty"`   // 0: none
}

// Job is a job to submit.
type Job struct {
	About
	Script []byte   // with its first line, which names the interpreter
	Args   []string // of the script

	PerTask   int           // of --cpus-per-task; 0: not said
	Tasks     int           // of --ntasks; 0: not said
	PerCPU    int64         // of --mem-per-cpu, bytes; 0: not said
	Tail      time.Duration // how long the jobs take that come after it and are not submitted yet
	Licenses  string        // NAME[:COUNT],...; "": none
	GPUs      int           // of the whole job, in thousandths
	Retries   int           // further tries after its program failed
	Output    string        // patterns of files; "" if not said
	Error     string        // "": as Output
	Input     string        // "": nothing to read
	Append    bool          // to Output and Error
	Warning   string        // signal before Limit; "": none
	WarnAhead time.Duration

	Workflow  string   // that it belongs to; "" if not said
	Container string   // image; "" if not said
	Array     []int    // nil: no array
	AtMost    int      // elements of it that run at once; 0: no bound
	After     []After  // jobs that have to end before
	Export    []string // NAME=VALUE

	Parsable, Quiet, Wait bool
	Request
}

// Dependency is a job, or an element of an array if Index is not negative.
type Dependency struct {
	ID    int64
	Index int
}

func (d Dependency) String() string {
	if d.Index < 0 {
		return strconv.FormatInt(d.ID, 10)
	}
	return fmt.Sprintf("%d_%d", d.ID, d.Index)
}

// When is how a job has to end before another one starts.
type When uint8

const (
	AfterOK    When = iota // with exit code 0
	AfterAny               // in any way
	AfterNotOK             // any other way than with exit code 0
)

// whens are the names of the constants in --dependency.
var whens = []string{"afterok", "afterany", "afternotok"}

// After is a job that has to end before.
type After struct {
	Dependency
	When When
}

func (a After) String() string { return whens[a.When] + ":" + a.Dependency.String() }

// Host has the inputs of a submission beside its options.
type Host struct {
	Dir   string // current directory, absolute
	Env   func(name string) (string, bool)
	Read  func(path string) ([]byte, error) // the script
	Real  func(dir string) string           // the same directory without links; a missing one is unchanged
	Stdin func() ([]byte, error)
}

// Parse reads a command line of sbatch, without the command's name, and the script that it names.
func Parse(args []string, host Host) (*Job, error) {
	opts, rest, err := getopt(sbatchOptions, args)
	if err != nil {
		return nil, err
	}
	j := &Job{About: About{Dir: host.Dir}}
	c := &call{Request: &j.Request, Job: j, host: host}
	if at := slices.IndexFunc(opts, func(o given) bool {
		return slices.Contains([]string{"help", "usage", "version"}, o.long)
	}); at >= 0 {
		return j, c.take(opts[at:])
	}
	if err := j.script(opts, rest, host); err != nil {
		return nil, err
	}
	all, err := directives(j.Script, j.where())
	if err != nil {
		return nil, err
	}
	// One level of options may override the other, but none has both.
	for _, level := range [][]given{all, opts} {
		if has(level, "mem") && has(level, "mem-per-cpu") {
			return nil, fmt.Errorf("--mem and --mem-per-cpu exclude each other")
		}
	}
	all = slices.Concat(all, fromEnv(sbatchOptions, sbatchVariables, host.Env), opts)
	for _, step := range []func() error{func() error { return c.take(all) }, c.cpus, c.memory,
		func() error { return j.finish(host.Real) }} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func has(opts []given, name string) bool {
	return slices.ContainsFunc(opts, func(o given) bool { return o.long == name })
}

// where is how messages call the script.
func (j *Job) where() string {
	switch {
	case j.Command != "":
		return j.Command
	case j.Name == "wrap":
		return "--wrap"
	}
	return "standard input"
}

// script finds the script, and the name that a job has after it.
func (j *Job) script(opts []given, rest []string, host Host) (err error) {
	wrapped := slices.IndexFunc(opts, func(o given) bool { return o.long == "wrap" })
	switch {
	case wrapped >= 0 && len(rest) > 0:
		return fmt.Errorf("--wrap takes no script and no arguments: %q is left over", rest[0])
	case wrapped >= 0:
		j.Name, j.Script = "wrap", []byte("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"+
			opts[wrapped].value+"\n")
	case len(rest) > 0:
		j.Command, j.Args, j.Name = rest[0], rest[1:], path.Base(rest[0])
		if j.Script, err = host.Read(j.Command); err != nil {
			return fmt.Errorf("open the script: %w", err)
		}
	default:
		j.Name = "sbatch"
		if j.Script, err = host.Stdin(); err != nil {
			return fmt.Errorf("read the script from standard input: %w", err)
		}
	}
	fault := ""
	switch program, _ := j.shebang(); {
	case len(j.Script) == 0:
		fault = "the script is empty"
	case len(j.Script) > MaxScript:
		fault = fmt.Sprintf("the script has more than %d bytes: call a program from a short script", MaxScript)
	case !bytes.HasPrefix(j.Script, []byte("#!")):
		fault = "the first line of a script has to be #! and the path of an interpreter, as in #!/bin/sh"
	case bytes.Contains(j.Script, []byte("\r\n")):
		fault = "the script has line ends of DOS (\\r\\n): convert it, as with dos2unix"
	case bytes.IndexByte(j.Script, 0) >= 0:
		fault = "the script has a null byte: it is no text"
	case !strings.HasPrefix(program, "/"):
		fault = "the first line of the script names no interpreter by an absolute path"
	}
	if fault != "" {
		return fmt.Errorf("%s: %s", j.where(), fault)
	}
	return nil
}

// finish resolves links in paths, and checks options together.
func (j *Job) finish(real func(string) string) error {
	j.Dir = real(j.Dir)
	for _, f := range []*string{&j.Output, &j.Error, &j.Input} {
		if dir := path.Dir(*f); path.IsAbs(*f) && *f != "/dev/null" && !strings.Contains(dir, "%") {
			*f = path.Join(real(dir), path.Base(*f))
		}
	}
	for _, text := range []string{j.Name, j.Partition, j.Account, j.Comment, j.Workflow, j.Container} {
		if strings.ContainsAny(text, "\n\x00") {
			return fmt.Errorf("%q: a line end is not possible here", text)
		}
	}
	if len(j.Name) > 256 {
		j.Name = j.Name[:256]
	}
	if j.Warning != "" && j.Limit == 0 {
		j.Warning = ""
	}
	for _, f := range []struct{ option, pattern string }{{"output", j.output()}, {"error", j.Error},
		{"input", j.Input}} {
		if err := j.inside(f.pattern); err != nil {
			return fmt.Errorf("--%s: %w", f.option, err)
		}
	}
	return nil
}

// inside refuses files that the job will not be able to write or read: only its directory is there.
func (j *Job) inside(pattern string) error {
	if pattern == "" || pattern == "/dev/null" {
		return nil
	}
	file := pattern
	if !path.IsAbs(file) {
		file = path.Join(j.Dir, file)
	}
	if file = path.Clean(file); file == j.Dir || !strings.HasPrefix(file, strings.TrimSuffix(j.Dir, "/")+"/") {
		return fmt.Errorf("%s is outside of %s, and the job can write to nothing else: name a file in it, or give "+
			"another directory with --chdir", pattern, j.Dir)
	}
	_, err := j.fileName(pattern)
	return err
}

// output is the pattern of the file that standard output goes to.
func (j *Job) output() string {
	switch {
	case j.Output != "":
		return j.Output
	case j.Array != nil:
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}

// cpus works out how many CPUs and GPUs the job wants.
func (c *call) cpus() error {
	if least, most, ranged := strings.Cut(c.nodes, "-"); c.nodes != "" {
		nodes, err := count(least)
		if ranged && err == nil {
			_, err = count(most)
		}
		if err != nil {
			return fmt.Errorf("--nodes: %w", err)
		} else if nodes > 1 {
			return fmt.Errorf("--nodes: a job runs on one node: write 1")
		}
	}
	j := c.Job
	switch {
	case c.tasksPerNode > 0 && j.Tasks > c.tasksPerNode:
		return fmt.Errorf("--ntasks-per-node: %d tasks would need more than one node, and a job runs on one", j.Tasks)
	case j.Tasks == 0:
		j.Tasks = c.tasksPerNode
	}
	if j.CPUs = max(max(j.Tasks, 1)*max(j.PerTask, 1), c.minCPUs); j.CPUs > 1<<20 {
		return fmt.Errorf("%d CPUs are more than any host has", j.CPUs)
	}
	if j.GPUs = max(c.gpus, c.gpusPerNode, c.gres, c.gpusPerTask*max(j.Tasks, 1)); j.GPUs > 1<<30 {
		return fmt.Errorf("%d GPUs are more than any host has", j.GPUs/1000)
	}
	return nil
}

// memory works out how much the job wants.
func (c *call) memory() (err error) {
	j := c.Job
	switch {
	case c.mem != "":
		if j.Memory, err = Memory(c.mem); err == nil && j.Memory == 0 {
			j.Notes = append(j.Notes, "--mem=0 asks for all memory of a node: gantry gives the job the share of the "+
				"node that its CPUs are")
		}
	case c.memPerCPU != "":
		if j.PerCPU, err = Memory(c.memPerCPU); err == nil && j.PerCPU > (1<<62)/int64(j.CPUs) {
			return fmt.Errorf("--mem-per-cpu: %s for each of %d CPUs is more than any host has", c.memPerCPU, j.CPUs)
		}
		j.Memory = j.PerCPU * int64(j.CPUs)
	}
	return err
}

var dependency = regexp.MustCompile(`^(\d+)(?:_(\d+))?(\+\d+)?$`)

func dependencies(text string) (out []After, err error) {
	if strings.Contains(text, "?") {
		return nil, fmt.Errorf("%q: gantry waits for all jobs, not for one of several", text)
	}
	for part := range strings.SplitSeq(text, ",") {
		kind, ids, ok := strings.Cut(part, ":")
		when := slices.Index(whens, strings.ToLower(kind))
		if when < 0 || !ok {
			return nil, fmt.Errorf("%q: gantry knows afterok, afterany and afternotok, each with :JOB[:JOB...]", part)
		}
		for id := range strings.SplitSeq(ids, ":") {
			m := dependency.FindStringSubmatch(id)
			if m == nil || m[3] != "" {
				return nil, fmt.Errorf("%q is no job", id)
			}
			d, err := job(m[1], m[2])
			if err != nil {
				return nil, err
			}
			out = append(out, After{d, When(when)})
		}
	}
	return out, nil
}

// job reads the number of a job, and the index of an element if there is one.
func job(number, element string) (Dependency, error) {
	id, err := strconv.ParseInt(number, 10, 64)
	d := Dependency{id, -1}
	if err == nil && element != "" {
		d.Index, err = strconv.Atoi(element)
	}
	if err != nil || id <= 0 {
		return d, fmt.Errorf("%q is no job", number)
	}
	return d, nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// export reads the value of --export. A job has the environment of its image, and the variables named here.
func (j *Job) export(text string, host Host) error {
	j.Export = nil
	for _, item := range splitOutsideQuotes(text) {
		name, val, ok := strings.Cut(item, "=")
		switch {
		case item == "NONE" || item == "NIL" || item == "":
		case item == "ALL":
			j.Notes = append(j.Notes, "--export=ALL does not pass the whole environment, which gantry would have to "+
				"keep in its log: name the variables, as in --export=NAME,OTHER=VALUE")
		case !identifier.MatchString(name):
			return fmt.Errorf("%q is no name of a variable", name)
		case ok:
			j.Export = append(j.Export, name+"="+val)
		default:
			val, set := host.Env(name)
			if !set {
				j.Notes = append(j.Notes, fmt.Sprintf("--export: the variable %s is not set", name))
				continue
			}
			j.Export = append(j.Export, name+"="+val)
		}
	}
	return nil
}

// splitOutsideQuotes splits at commas that are in no quotes, and takes the quotes away.
func splitOutsideQuotes(text string) (out []string) {
	var b strings.Builder
	var quote rune
	for _, r := range text {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == ',':
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteRune(r)
		}
	}
	return append(out, b.String())
}

// signals are the names that --signal may have, with the numbers of Linux.
var signals = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12, "ALRM": 14,
	"TERM": 15, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24}

// warnAhead is how long before the limit the signal comes if --signal does not say it.
const warnAhead = 60 * time.Second

// signal reads the value of --signal: [[R][B]:]SIGNAL[@SECONDS].
func (j *Job) signal(text string) error {
	flags, rest, ok := strings.Cut(text, ":")
	if !ok {
		flags, rest = "", text
	}
	name, ahead, timed := strings.Cut(rest, "@")
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	known := signals[name] > 0
	for _, n := range signals {
		known = known || name == strconv.Itoa(n)
	}
	if strings.Trim(flags, "RB") != "" || !known {
		return fmt.Errorf("%q: write [B:]SIGNAL[@SECONDS], as in B:USR2@30", text)
	}
	j.WarnAhead = warnAhead
	if timed {
		s, err := strconv.ParseUint(ahead, 10, 16)
		if err != nil {
			return fmt.Errorf("%q: the number of seconds is at most 65535", text)
		}
		j.WarnAhead = time.Duration(s) * time.Second
	}
	j.Warning = name
	if !strings.Contains(flags, "B") {
		j.Warning = ""
		j.Notes = append(j.Notes, "--signal="+text+" has no effect: it is for job steps, and gantry has none; B: "+
			"before the signal sends it to the script")
	}
	return nil
}

var (
	// nextflow matches the name that Nextflow gives to PROCESS (TAG).
	nextflow = regexp.MustCompile(`^nf-(.+?)(_\(.*\)?)?$`)
	// numbered is a name with a number at its end.
	numbered = regexp.MustCompile(`^(.*[A-Za-z])[-_.]?[0-9]+$`)
)

// Kind is the common part of the names of jobs of one type: the process of Nextflow (nf-align_(3) is align), or a name
// without the number at its end (align-3). Their estimates come from earlier jobs of the kind.
func Kind(name string) string {
	if m := nextflow.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	if m := numbered.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// Workflow is the name of the workflow that a job belongs to if nobody gives it one.
func Workflow(name string) string {
	if strings.HasPrefix(name, "nf-") {
		return "nextflow"
	}
	return "sbatch"
}
