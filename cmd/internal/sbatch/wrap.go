package sbatch

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ID is the environment variable in which a job finds the number of its submission.
const ID = "GANTRY_ID"

// scriptFile is where a job's script lies in its container, in memory.
const scriptFile = "/tmp/slurm_script"

// chunk is how much of a script one argument holds: the kernel takes 128 KB.
const chunk = 100 << 10

// Submitter is the user that submits, with the host and the directory.
type Submitter struct {
	User string
	UID  int
	Host string // short name of the host
	Dir  string // where sbatch was called, absolute
}

// Argv is the command of a job: /bin/sh with a program that makes the environment of a Slurm job, opens its files, and
// becomes the script. Element is the position of an element in the array, 0 in a job without one.
func (j *Job) Argv(s Submitter, element int) []string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("cd %s || exit", quote(j.Dir))
	for _, v := range j.environment(s, element) {
		line("export %s", v)
	}
	// The name was checked when the job was read.
	file := func(pattern string) string {
		name, _ := j.fileName(pattern)
		return name
	}
	to := ">"
	if j.Append {
		to = ">>"
	}
	// Patterns use SLURMD_NODENAME and the like, so the variables come first.
	if j.Input == "" {
		line("exec </dev/null")
	} else {
		line("exec <%s", file(j.Input))
	}
	line("exec %s%s", to, file(j.output()))
	if j.Error == "" {
		line("exec 2>&1")
	} else {
		line("exec 2%s%s", to, file(j.Error))
	}
	if j.Warning != "" {
		// Twice in the background: the script shall not find a child that it did not start.
		wait := max(0, j.Limit-j.WarnAhead)
		line("( ( sleep %d; kill -%s $$ ) </dev/null >/dev/null 2>&1 & )", int64(wait/time.Second), j.Warning)
	}
	line("n=$1; shift")
	line(": >%s || exit", scriptFile)
	line(`while [ "$n" -gt 0 ]; do printf %%s "$1" >>%s || exit; shift; n=$((n - 1)); done`, scriptFile)
	program, argument := j.shebang()
	command := quote(program)
	if argument != "" {
		command += " " + quote(argument)
	}
	line(`exec %s %s "$@"`, command, scriptFile)

	argv := []string{"/bin/sh", "-c", b.String(), "slurm_script"}
	var chunks []string
	for part := range slices.Chunk(j.Script, chunk) {
		chunks = append(chunks, string(part))
	}
	argv = append(argv, strconv.Itoa(len(chunks)))
	return append(append(argv, chunks...), j.Args...)
}

// environment are the variables of a job, as words of a shell.
func (j *Job) environment(s Submitter, element int) (out []string) {
	set := func(name, word string) { out = append(out, name+"="+word) }
	number := func(name string, n int) { set(name, strconv.Itoa(n)) }
	own := `"$` + ID + `"`
	set("SLURM_JOB_ID", own)
	set("SLURM_JOBID", own)
	set("SLURM_JOB_NAME", quote(j.Name))
	set("SLURM_JOB_USER", quote(s.User))
	number("SLURM_JOB_UID", s.UID)
	set("USER", quote(s.User))
	set("LOGNAME", quote(s.User))
	set("SLURM_SUBMIT_DIR", quote(s.Dir))
	set("SLURM_SUBMIT_HOST", quote(s.Host))
	set("SLURM_CLUSTER_NAME", "gantry")
	for _, name := range []string{"SLURMD_NODENAME", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} {
		set(name, quote(s.Host))
	}
	for _, name := range []string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES"} {
		number(name, 1)
	}
	for _, name := range []string{"SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"} {
		number(name, 0)
	}
	for _, name := range []string{"SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"} {
		number(name, j.CPUs)
	}
	number("SLURM_TASKS_PER_NODE", max(1, j.Tasks))
	if j.Tasks > 0 {
		number("SLURM_NTASKS", j.Tasks)
		number("SLURM_NPROCS", j.Tasks)
	}
	if j.PerTask > 0 {
		number("SLURM_CPUS_PER_TASK", j.PerTask)
	}
	switch {
	case j.PerCPU > 0:
		number("SLURM_MEM_PER_CPU", int(j.PerCPU>>20))
	case j.Memory > 0:
		number("SLURM_MEM_PER_NODE", int(j.Memory>>20))
	}
	if j.Partition != "" {
		set("SLURM_JOB_PARTITION", quote(j.Partition))
	}
	if j.Account != "" {
		set("SLURM_JOB_ACCOUNT", quote(j.Account))
	}
	if j.Array != nil {
		set("SLURM_ARRAY_JOB_ID", fmt.Sprintf("$((%s - %d))", ID, element))
		number("SLURM_ARRAY_TASK_ID", j.Array[element])
		number("SLURM_ARRAY_TASK_COUNT", len(j.Array))
		number("SLURM_ARRAY_TASK_MIN", j.Array[0])
		number("SLURM_ARRAY_TASK_MAX", j.Array[len(j.Array)-1])
		step := 1
		if len(j.Array) > 1 {
			step = j.Array[1] - j.Array[0]
		}
		number("SLURM_ARRAY_TASK_STEP", step)
	}
	set("ENVIRONMENT", "BATCH")
	return out
}

// fileName makes a word of a shell of a pattern such as slurm-%j.out. A \ at its beginning takes it as it is.
func (j *Job) fileName(pattern string) (string, error) {
	if pattern == "/dev/null" {
		return pattern, nil
	}
	var b strings.Builder
	if plain, ok := strings.CutPrefix(pattern, `\`); ok {
		return quote(path.Clean(path.Join(j.Dir, plain))), nil
	}
	if !path.IsAbs(pattern) {
		pattern = path.Join(strings.ReplaceAll(j.Dir, "%", "%%"), pattern)
	}
	texts := map[byte]string{'%': "%", 's': "batch"}
	words := map[byte]string{'N': `"$SLURMD_NODENAME"`, 'u': `"$SLURM_JOB_USER"`, 'x': `"$SLURM_JOB_NAME"`}
	job := `"$SLURM_JOB_ID"`
	numbers := map[byte]string{'A': job, 'J': job, 'j': job, 'n': "0", 't': "0"}
	if j.Array != nil {
		numbers['A'], numbers['a'] = `"$SLURM_ARRAY_JOB_ID"`, `"$SLURM_ARRAY_TASK_ID"`
	} else {
		texts['a'] = "4294967294" // as Slurm does
	}
	literal := ""
	flush := func() {
		if literal != "" {
			b.WriteString(quote(literal))
		}
		literal = ""
	}
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			literal += pattern[i : i+1]
			continue
		}
		k := i + 1
		for k < len(pattern) && pattern[k] >= '0' && pattern[k] <= '9' {
			k++
		}
		if k == len(pattern) {
			return "", fmt.Errorf("pattern %q ends in %%: write %%%% for a percent sign", pattern)
		}
		width, err := strconv.Atoi("0" + pattern[i+1:k])
		if err != nil || width > 10 {
			width = 10 // as Slurm does
		}
		switch c := pattern[k]; {
		case texts[c] != "":
			literal += texts[c]
		case words[c] != "":
			flush()
			b.WriteString(words[c])
		case numbers[c] != "":
			flush()
			fmt.Fprintf(&b, `"$(printf %%0%dd %s)"`, max(1, width), numbers[c])
		default:
			return "", fmt.Errorf("pattern %q: %%%c is not known; %%j is the job, %%A and %%a the array and the "+
				"index, %%x its name, %%u the user", pattern, pattern[k])
		}
		i = k
	}
	flush()
	return b.String(), nil
}

// quote makes one word of a shell of a text.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
