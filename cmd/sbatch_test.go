package cmd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gantry/cmd/internal/server"
	"gantry/executor/container/docker"
	"gantry/planner/seed/seedtest"
)

// slurmServer serves a directory, and makes another one the current one, in which jobs may write.
func slurmServer(t *testing.T, args ...string) (work string, s *served) {
	t.Helper()
	needsBusybox(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, dir := range []string{filepath.Dir(top), top} { // programs of root's run as nobody
		must(t, os.Chmod(dir, 0o755))
	}
	work = filepath.Join(top, "work")
	must(t, os.Mkdir(work, 0o777))
	must(t, os.Chmod(work, 0o777))
	task, err := docker.FindTaskBinary()
	must(t, err)
	t.Setenv("GANTRY_TASK", task) // also for a server that is started in another directory
	s = serveIn(t, filepath.Join(top, "runs"), args...)
	t.Setenv("GANTRY_DIR", filepath.Join(top, "runs"))
	t.Setenv("GANTRY_IMAGE", "gantry/busybox")
	t.Chdir(work)
	return work, s
}

// nextflowStates are what Nextflow 22 to 25 makes of the states of squeue (SlurmExecutor.STATUS_MAP).
var nextflowStates = map[string]string{"PD": "pending", "R": "running", "CA": "error", "CF": "pending",
	"CG": "running", "CD": "done", "F": "error", "TO": "error", "NF": "error", "S": "hold", "ST": "hold",
	"PR": "error", "BF": "error"}

// nextflowQueue asks as Nextflow does (SlurmExecutor.queueStatusCommand), and reads the answer as it does.
func nextflowQueue(t *testing.T, more ...string) map[string]string {
	t.Helper()
	args := append([]string{"squeue", "--noheader", "-o", "%i %t", "-t", "all"}, more...)
	states := map[string]string{}
	for line := range strings.Lines(expect(t, exitOK, nil, args...)) {
		columns := strings.Fields(line)
		if len(columns) != 2 || nextflowStates[columns[1]] == "" {
			t.Fatalf("%q is no line of squeue", line)
		}
		states[columns[0]] = nextflowStates[columns[1]]
	}
	return states
}

// nextflowUntil asks until a job has a state.
func nextflowUntil(t *testing.T, job, state string, more ...string) {
	t.Helper()
	eventually(t, func() (bool, any) {
		got := nextflowQueue(t, more...)[job]
		return got == state, "job " + job + " is " + got
	})
}

// nextflowSubmit writes the script of a task and hands it in as Nextflow does: sbatch .command.run in its directory.
func nextflowSubmit(t *testing.T, dir, directives, body string) (id string) {
	t.Helper()
	shell := "#!/bin/sh\n"
	if strings.HasPrefix(body, "set -eu\n") {
		shell = "#!/bin/bash\n"
	}
	script := shell + strings.ReplaceAll(directives, "DIR", dir) + "NXF_CHDIR=" + dir + "\n" + body
	cliTest{t, dir}.write(".command.run", script)
	t.Chdir(dir)
	m := regexp.MustCompile(`Submitted batch job (\d+)`).FindStringSubmatch(expect(t, exitOK, nil, "sbatch",
		".command.run"))
	if m == nil {
		t.Fatal("sbatch names no job")
	}
	return m[1]
}

// nextflowScript is what the script of a task has below its directives.
const nextflowScript = `set -eu
entry=${1:-whole}
stop() {
	local -a below=()
	while read -r child parent; do below[$parent]+=" $child"; done < <(ps -e -o pid= -o ppid=)
	each() { [[ $1 == $$ ]] || kill "$1" 2>/dev/null || true; for c in ${below[$1]:-}; do each "$c"; done; }
	each "$1"
}
left() { code=${result:=$?}; printf -- "$code" >@DIR@/.exitcode; rm -rf "${scratch:-}"; sync || true; exit "$code"; }
asked() { set +e; [[ ${pid:-} ]] && stop "$pid"; }
launch() { /bin/bash -ue @DIR@/.command.sh; }
whole() {
	trap left EXIT
	trap asked TERM INT USR2
	trap '' USR1
	[[ "${NXF_CHDIR:-}" ]] && cd "$NXF_CHDIR"
	scratch=$(mktemp -d -t nxf.XXXXXXXXXX)
	: >@DIR@/.command.begin
	ln -sf @DATA@/in.txt in.txt
	set +e
	(set -o pipefail; (launch | tee .command.out) 3>&1 1>&2 2>&3 | tee .command.err) &
	pid=$!
	wait $pid || result=$?
}
$entry
`

// TestNextflow holds the dialogue that Nextflow's executor slurm has with Slurm, as its source and its tests have it
// (modules/nextflow/src/main/groovy/nextflow/executor/SlurmExecutor.groovy), with a whole script as Nextflow wraps it
// around a task (command-run.txt of its source) and the same means of bash: traps, files that say that it began and how
// it ended, links to inputs in other directories, output that goes to three files. Then one whose task fails, one that
// scancel ends, which has to leave its exit code, too, and an array, as newer versions have.
func TestNextflow(t *testing.T) {
	work, _ := slurmServer(t, "--grace", "2m") // on a busy host bash is slow to leave its exit code
	const image = "gantry/nextflow"
	if exec.Command("docker", "image", "inspect", image).Run() != nil {
		t.Skipf("needs the image %s (gantry image build %s bash coreutils procps)", image, image)
	}
	t.Setenv("GANTRY_IMAGE", image)
	data := filepath.Join(filepath.Dir(work), "data")
	must(t, errors.Join(os.Mkdir(data, 0o755), os.WriteFile(filepath.Join(data, "in.txt"), []byte("reads\n"), 0o644)))
	t.Setenv("GANTRY_READ", data)
	wrapper := strings.ReplaceAll(nextflowScript, "@DATA@", data)
	submit := func(name, command string, more ...string) (dir, id string) {
		t.Helper()
		dir = filepath.Join(work, name)
		script := []byte("#!/bin/bash -ue\n" + command)
		must(t, errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777),
			os.WriteFile(filepath.Join(dir, ".command.sh"), script, 0o755)))
		return dir, nextflowSubmit(t, dir, "#SBATCH -J nf-"+name+"\n#SBATCH -o DIR/.command.log\n"+
			"#SBATCH --no-requeue\n#SBATCH --signal B:USR2@30\n#SBATCH -c 2\n#SBATCH -t 00:05:00\n"+
			"#SBATCH --mem 100M\n"+strings.Join(more, ""), strings.ReplaceAll(wrapper, "@DIR@", dir))
	}
	me := []string{"-u", server.UserName(os.Geteuid())}

	dir, id := submit("ends", "sort in.txt >out.txt; echo says; echo warns >&2\n")
	nextflowUntil(t, id, "done", me...)
	t.Chdir(dir)
	if got := readAll(t, "out.txt", ".exitcode", ".command.out", ".command.err"); got != "reads\n0says\nwarns\n" {
		t.Errorf("the task left %q", got)
	}
	if got := readAll(t, ".command.log"); !strings.Contains(got, "says\n") || !strings.Contains(got, "warns\n") {
		t.Errorf("the log of the job is %q", got)
	}
	if got := readAll(t, ".command.begin"); got != "" {
		t.Errorf("the file that says it began has %q", got)
	}

	dir, id = submit("fails", "echo wrong >&2; exit 3\n")
	nextflowUntil(t, id, "error", me...)
	t.Chdir(dir)
	if got := readAll(t, ".exitcode", ".command.err"); got != "3wrong\n" {
		t.Errorf("the task that fails left %q", got)
	}
	expect(t, exitOK, []string{id + "|FAILED|3:0"}, "sacct", "-j", id, "-n", "-P", "-b")

	dir, id = submit("long", ": >running; sleep 600\n", "#SBATCH -p short\n")
	waitForFile(t, filepath.Join(dir, "running"))
	nextflowUntil(t, id, "running", append(me, "-p", "short")...)
	if got := nextflowQueue(t, append(me, "-p", "long")...); len(got) > 0 {
		t.Errorf("the other queue has %v", got)
	}
	expect(t, exitOK, nil, "scancel", id)
	nextflowUntil(t, id, "error", me...)
	t.Chdir(dir)
	if code := readAll(t, ".exitcode"); code == "0" || code == "" {
		t.Errorf("the task that was ended left exit code %q", code)
	}
	id = nextflowSubmit(t, work, "#SBATCH --array 0-1\n#SBATCH -J nf-many\n#SBATCH -o /dev/null\n",
		"echo $SLURM_ARRAY_TASK_ID >element-$SLURM_ARRAY_TASK_ID\n")
	for _, element := range []string{"_0", "_1"} {
		nextflowUntil(t, id+element, "done", "--only-job-state")
	}
	if got := readAll(t, "element-0", "element-1"); got != "0\n1\n" {
		t.Errorf("the elements left %q", got)
	}
}

// sbatched hands in a job and returns its number.
func sbatched(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(expect(t, exitOK, nil, append([]string{"sbatch", "--parsable"}, args...)...))
}

// expectBoth runs a command and returns what it prints and says.
func expectBoth(t *testing.T, want int, args ...string) (prints, says string) {
	t.Helper()
	code, prints, says := invoke(t, args...)
	if code != want {
		t.Errorf("%q: exit %d, want %d\n%s%s", args, code, want, prints, says)
	}
	return prints, says
}

func readAll(t *testing.T, names ...string) (all string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		all += string(data)
	}
	return all
}

func TestSlurmLimitsAndRefusals(t *testing.T) {
	slurmServer(t, "--runtime", runtimesOf(t)[0])
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"sbatch", "--gres=gpu:1", "--wrap", "true"}, "needs GPUs: 1, and no node"},
		{[]string{"sbatch", "--gres=gpu:a100:1", "--wrap", "true"}, "--gres"},
		{[]string{"sbatch", "-o", "/etc/x", "--wrap", "true"}, "outside"},
		{[]string{"sbatch", "-D", "/etc", "--wrap", "true"}, "own"},
		{[]string{"sbatch", "-D", os.Getenv("GANTRY_DIR"), "--wrap", "true"}, "gantry's own directory"},
		{[]string{"sbatch", "-D", "/no/such", "--wrap", "true"}, "no such"},
		{[]string{"sbatch", "/no/script"}, "open the script: /no/script: no such file or directory; check the path"},
		{[]string{"sbatch", "--container", "gantry/none", "--wrap", "true"}, "gantry/none"},
		{[]string{"sbatch", "-c", "9999", "--wrap", "true"}, "9999 cores"},
		{[]string{"squeue", "-j", "99"}, "99"},
		{[]string{"scancel"}, "no job"},
	} {
		if _, says := expectBoth(t, exitSlurm, c.args...); !strings.Contains(says, c.says) ||
			!strings.HasPrefix(says, c.args[0]+": ") {
			t.Errorf("%q says %q, not %q", c.args, says, c.says)
		}
	}
	// Waits, and has the exit code of the job.
	out, says := expectBoth(t, 9, "sbatch", "-W", "--parsable", "--mail-type=END", "--wrap", "exit 9")
	if out != "1\n" || !strings.Contains(says, "--mail-type has no effect") {
		t.Errorf("prints %q, says %q", out, says)
	}
	expectBoth(t, 1, "sbatch", "-W", "--mem", "8", "--wrap", "dd if=/dev/zero of=/dev/null bs=64M count=1")
	expect(t, exitOK, []string{"2|OUT_OF_MEMORY|0:125"}, "sacct", "-j", "2", "-P", "-b")
	// What it may read, and nothing else.
	top := filepath.Dir(os.Getenv("GANTRY_DIR"))
	for _, name := range []string{"open", "closed"} {
		must(t, os.Mkdir(filepath.Join(top, name), 0o755))
		cliTest{t, filepath.Join(top, name)}.write("file", name+"\n")
	}
	t.Setenv("GANTRY_READ", filepath.Join(top, "open"))
	expectBoth(t, 0, "sbatch", "-W", "--wrap", "cat ../open/file && ! cat ../closed/file && ! touch ../open/x")
	if got := readAll(t, "slurm-3.out"); !strings.HasPrefix(got, "open\n") {
		t.Errorf("the job says %q", got)
	}
}

// Jobs are tasks of workflows: --dependency orders them, the process of Nextflow is their type, by which the runtime of
// later ones is estimated, and the log has them in workflows by name.
func TestSlurmJobsAreTasksOfWorkflows(t *testing.T) {
	needsOCI(t)
	slurmServer(t, "--runtime", "oci")
	submit := func(args ...string) string { return sbatched(t, args...) }
	first := submit("-J", "nf-align_(s1)", "--wrap", "sleep 1; echo aligned >aligned")
	many := submit("-J", "part", "--array", "1-2", "-d", "afterok:"+first, "--wrap",
		"cp aligned part-$SLURM_ARRAY_TASK_ID")
	bad := submit("-J", "bad", "--workflow", "mine", "-d", "afterok:"+many, "--wrap", "cat part-1 part-2 >both; exit 3")
	never := submit("-J", "never", "--workflow", "mine", "-d", "afterok:"+bad, "--wrap", "touch never")
	below := submit("-J", "below", "-d", "afterok:"+never, "--wrap", "touch never")
	failed := submit("-J", "failed", "-d", "afternotok:"+bad, "--wrap", "cp both failed")
	absurd := submit("-J", "absurd", "-d", "afternotok:"+many+"_2", "--wrap", "touch never")
	expect(t, exitOK, []string{bad + " PD afterok:" + many + "(unfulfilled)"}, "squeue", "-h", "-o", "%i %t %E")
	expectBoth(t, exitOK, "sbatch", "--wait", "-Q", "-d", "afterany:"+bad+":"+failed, "-J", "last", "--wrap",
		"! test -e never && cat both failed >all")
	if got := readAll(t, "all"); got != strings.Repeat("aligned\n", 4) {
		t.Errorf("the jobs left %q", got)
	}
	states := expect(t, exitOK, nil, "squeue", "-h", "-t", "all", "-o", "%i %t")
	for id, state := range map[string]string{many + "_1": "CD", bad: "F", failed: "CD", never: "CA", below: "CA",
		absurd: "CA"} {
		if !strings.Contains("\n"+states, "\n"+id+" "+state+"\n") {
			t.Errorf("job %s is not %s:\n%s", id, state, states)
		}
	}
	for _, c := range [][]string{{"afterok:99", "no submission 99"}, {"afterok:99_1", "no job 99_1"},
		{"afterok:" + bad, "has failed"}, {"afternotok:" + first, "ended well"}, {"afterok:" + never, "cancelled"}} {
		if _, says := expectBoth(t, exitSlurm, "sbatch", "-d", c[0], "--wrap", "true"); !strings.Contains(says, c[1]) {
			t.Errorf("-d %s says %q, not %q", c[0], says, c[1])
		}
	}
	t.Setenv("GANTRY_WORKFLOW", "named")
	again := submit("-W", "-J", "nf-align_(s2)", "--wrap", "true")
	runs := os.Getenv("GANTRY_DIR")
	const query = "SELECT w.label || ' ' || t.kind || ' ' || a.estimate_source || ' ' || (a.estimate_ns > 900000000) " +
		"FROM submitted s JOIN tasks t ON t.run = s.run AND t.task = s.task JOIN attempts a ON a.run = t.run AND " +
		"a.attempt = t.attempt JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow WHERE s.id = ?"
	if got := one[string](t, runs, query, again); got != "named align learned 1" {
		t.Errorf("the second alignment is %q, want named align learned 1", got)
	}
	if got := one[string](t, runs, "SELECT label FROM workflows JOIN submitted USING (run, workflow) WHERE "+
		"submitted.id = ?", bad); got != "mine" {
		t.Errorf("job %s is of workflow %s, want mine", bad, got)
	}
}

// A server that knows nothing of the jobs to come ranks those it has by --tail.
func TestSlurmJobsAreRankedByTheirTails(t *testing.T) {
	needsOCI(t)
	cluster := written(t, "one-core.yaml", "nodes:\n  - {name: one, cores: 1}\n")
	work, _ := slurmServer(t, "--runtime", "oci", "--policy", "hr", "--cluster", cluster)
	submit := func(name string, args ...string) {
		expect(t, exitOK, nil, append(append([]string{"sbatch", "-J", name}, args...), "--wrap",
			"echo "+name+" >>order; until test -e go; do sleep 0.1; done")...)
	}
	submit("first")
	waitForFile(t, filepath.Join(work, "order"))
	submit("short", "--tail", "10")
	submit("long", "--tail", "3600.5")
	submit("last")
	expect(t, exitOK, nil, "sbatch", "-Q", "--wrap", "true", "--tail", "0")
	for _, wrong := range []string{"-1", "NaN", "1e300", "ten", ""} {
		if _, says := expectBoth(t, exitSlurm, "sbatch", "--tail="+wrong, "--wrap", "true"); !strings.Contains(says,
			"not a number of seconds") {
			t.Errorf("--tail=%s says %q", wrong, says)
		}
	}
	cliTest{t, work}.write("go", "")
	expect(t, exitOK, nil, "drain", "--dir", os.Getenv("GANTRY_DIR"))
	if got := readAll(t, "order"); got != "first\nlong\nshort\nlast\n" {
		t.Errorf("the jobs ran in the order %q", got)
	}
}

// A server learns from earlier jobs which kinds follow which: here from the links of Nextflow's scripts to the
// directories of other jobs. In the next run the kind that much work waits for goes first.
func TestSlurmJobsAreRankedByEarlierOnes(t *testing.T) {
	needsOCI(t)
	cluster := written(t, "one-core.yaml", "nodes:\n  - {name: one, cores: 1}\n")
	work, _ := slurmServer(t, "--runtime", "oci", "--policy", "hr", "--cluster", cluster)
	at := func(name string) string {
		dir := filepath.Join(work, "work", name)
		must(t, errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)))
		return dir
	}
	submit := func(kind, sample, script string, more ...string) {
		dir := at(kind + sample)
		expect(t, exitOK, nil, append([]string{"sbatch", "-J", "nf-" + kind + "_(" + sample + ")", "-D", dir, "--wrap",
			script}, more...)...)
	}
	submit("quality", "1", "true", "--wait")
	submit("trim", "1", "echo trimmed >out.fq", "--wait")
	submit("align", "1", "ln -s "+at("trim1")+"/out.fq in.fq; sleep 6; test -h in.fq", "--wait")
	t.Setenv("GANTRY_READ", work)
	submit("block", "", "touch begun; until test -e "+work+"/go; do sleep 0.1; done")
	waitForFile(t, filepath.Join(at("block"), "begun"))
	submit("quality", "2", "date +%s >when; sleep 1.2")
	submit("trim", "2", "date +%s >when; sleep 1.2")
	cliTest{t, work}.write("go", "")
	expect(t, exitOK, nil, "drain", "--dir", os.Getenv("GANTRY_DIR"))
	long := "cat"
	for i := range 400 {
		long += " /" + strconv.Itoa(i) + strings.Repeat("/x", i)
	}
	serveIn(t, os.Getenv("GANTRY_DIR"), "--runtime", "oci")
	submit("long", "", long)
	const longest = "SELECT length(options) FROM submitted WHERE options LIKE '%nf-long%'"
	if n := one[int](t, os.Getenv("GANTRY_DIR"), longest); n > 10_000 {
		t.Errorf("the log keeps %d bytes of the paths of a job", n)
	}
	if trim, quality := readAll(t, at("trim2")+"/when"), readAll(t, at("quality2")+"/when"); trim >= quality {
		t.Errorf("trim starts at %s, quality at %s", trim, quality)
	}
}

// runtimesOf are Docker and oci; a short test has one of them.
func runtimesOf(t *testing.T) []string {
	t.Helper()
	both := []string{"docker", "oci"}
	needsOCI(t)
	if testing.Short() {
		return both[seedtest.Part(2):][:1]
	}
	return both
}

// eachRuntime runs a test with a server of each runtime, in a directory in which its jobs may write.
func eachRuntime(t *testing.T, test func(t *testing.T, work string, s *served)) {
	for _, runtime := range runtimesOf(t) {
		t.Run(runtime, func(t *testing.T) {
			work, s := slurmServer(t, "--runtime", runtime)
			test(t, work, s)
		})
	}
}

// A job changes files of its user: however it ends once it began, it is not tried again unless it may be, where its
// program fails or its container is lost, and it never gets more memory than was asked for. A signal that ended the
// script is another end than one that ended a program in it.
func TestAJobRunsAgainIfItMay(t *testing.T) {
	const hungry = "x=$(dd if=/dev/zero bs=1M count=90 2>/dev/null | tr '\\0' a); echo ${#x}"
	eachRuntime(t, func(t *testing.T, work string, _ *served) {
		jobs := []struct {
			name, option, does string
			tries              int
			account            string
		}{
			{"memory", "--no-requeue", hungry, 1, "OUT_OF_MEMORY|0:125|OutOfMemory"},
			// As if from outside: such ends used to be tried again.
			{"killed", "--no-requeue", "kill -9 $$", 1, "FAILED|0:9|RaisedSignal:9(Killed)"},
			{"faulty", "--no-requeue", "kill -SEGV $$", 1, "FAILED|0:11|RaisedSignal:11(Segmentation fault)"},
			{"child", "--no-requeue", "sh -c 'kill -9 $$'; exit $?", 1, "FAILED|9:0|NonZeroExitCode"},
			{"returns", "--no-requeue", "exit 254", 1, "FAILED|126:0|NonZeroExitCode"},
			{"third", "--retries=2", "[ $(wc -l <third) = 3 ] || exit 3", 3, "COMPLETED|0:0"},
			{"never", "--retries=2", "exit 4", 3, "FAILED|4:0"},
			{"hungry", "--retries=2", hungry, 1, "OUT_OF_MEMORY|0:125"},
		}
		var ids []string
		for _, j := range jobs {
			ids = append(ids, sbatched(t, j.option, "--mem=20M", "--wrap", "echo try >>"+j.name+"; "+j.does))
		}
		for i, j := range jobs {
			_, _, _ = invoke(t, "wait", ids[i])
			if got := readAll(t, filepath.Join(work, j.name)); got != strings.Repeat("try\n", j.tries) {
				t.Errorf("%s: the job wrote %q", j.name, got)
			}
			expect(t, exitOK, []string{j.account}, "sacct", "-n", "-X", "-P", "-j", ids[i], "-o",
				"state,exitcode,reason")
		}
	})
}

// waitForFile waits until a file is there.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, func() (bool, any) {
		_, err := os.Stat(path)
		return err == nil, err
	})
}

// A job whose program began and was lost with its container while no server was there is NODE_FAIL, and not run again,
// even if the server ended before its log had the beginning.
func TestALostJobIsNotRunAgain(t *testing.T) {
	work, server := slurmServer(t, "--runtime", "docker", "--name", "lost")
	runs := os.Getenv("GANTRY_DIR")
	id := sbatched(t, "--wrap", "echo try >>tries; sleep 600")
	waitForFile(t, filepath.Join(work, "tries"))
	server.kill()
	// The engine may not know yet that the program began.
	out, err := exec.Command("docker", "ps", "-aq", "--no-trunc", "--filter", "label=gantry.run=lost").Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("no container: %v", err)
	}
	if out, err := exec.Command("docker", append([]string{"rm", "-f"}, strings.Fields(string(out))...)...).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	serveIn(t, runs, "--runtime", "docker", "--name", "lost")
	nextflowUntil(t, id, "error")
	expect(t, exitOK, []string{"NODE_FAIL|0:0"}, "sacct", "-nPXj", id, "-o", "state,exitcode")
	if got := readAll(t, "tries"); got != "try\n" {
		t.Errorf("the job wrote %q", got)
	}
}

// At most two elements of an array run at once, whatever way they end, and also after the server was killed and started
// again. Names of elements are taken as squeue of Slurm prints them.
func TestArraysAreThrottled(t *testing.T) {
	eachRuntime(t, func(t *testing.T, work string, server *served) {
		id := sbatched(t, "--array", "1-11:2,20%2", "-o", "/dev/null", "--wrap",
			"i=$SLURM_ARRAY_TASK_ID; mkdir run-$i; ls -d run-* | wc -l >>peaks\n"+
				"until test -e go; do sleep 0.05; done; sleep 0.2; rmdir run-$i; test $i != 3")
		states := func() string {
			return expect(t, exitOK, nil, "squeue", "-h", "-t", "all", "-j", id+"_[1-7,11,20]", "-o", "%K %t %r")
		}
		until := func(want string) {
			t.Helper()
			eventually(t, func() (bool, any) {
				got := states()
				return got == want, got
			})
		}
		held := "5 PD JobArrayTaskLimit\n7 PD JobArrayTaskLimit\n"
		until(held + "11 PD JobArrayTaskLimit\n20 PD JobArrayTaskLimit\n1 R None\n3 R None\n")
		expect(t, exitOK, nil, "scancel", id+"_[7,20]")
		server.kill()
		serveIn(t, os.Getenv("GANTRY_DIR"), server.cmd.Args[len(server.cmd.Args)-2:]...)
		until("5 PD JobArrayTaskLimit\n11 PD JobArrayTaskLimit\n1 R None\n3 R None\n7 CA None\n20 CA None\n")
		cliTest{t, work}.write("go", "")
		until("1 CD None\n5 CD None\n11 CD None\n7 CA None\n20 CA None\n3 F NonZeroExitCode\n")
		peaks := strings.Fields(readAll(t, "peaks"))
		if len(peaks) != 5 || slices.Max(peaks) != "2" {
			t.Errorf("running at once: %v, want five counts, of at most 2", peaks)
		}
		expect(t, exitOK, []string{id + "_1|0:0\n" + id + "_3|1:0\n" + id + "_9|0:0\n"}, "sacct", "-nPX", "-j",
			id+"_[1-3:2],"+id+"_[9]", "-o", "jobid,exitcode")
	})
}

// A job that is being ended runs for Slurm's commands until it is over, and is cancelled for gantry's own.
func TestAJobThatIsBeingEnded(t *testing.T) {
	_, server := slurmServer(t, "--runtime", runtimesOf(t)[0], "--grace", "1h")
	id := sbatched(t, "--array", "7", "-o", "/dev/null", "--wrap",
		"trap '' TERM; : >begun; while :; do sleep 0.1; done")
	waitForFile(t, "begun")
	expect(t, exitOK, nil, "scancel", id+"_7")
	expect(t, exitOK, []string{id + "_7 R None\n"}, "squeue", "-h", "-o", "%i %t %r", "-j", id)
	expect(t, exitOK, []string{`"state":"cancelled"`, "being ended"}, "queue", "--json", "--dir", server.dir)
}

// Directories and files of jobs may have any names that a file system has.
func TestJobsWorkInOddlyNamedDirectories(t *testing.T) {
	eachRuntime(t, func(t *testing.T, work string, _ *served) {
		ids := map[string]string{}
		for _, name := range []string{"at 7:45, \"b\",c=d", "it's:rw", "a:in-place:b:rw", "line\nend $x \\"} {
			dir := filepath.Join(work, name)
			must(t, errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)))
			ids[dir] = sbatched(t, "-D", dir, "-o", "out:%j,\n.txt", "-e", dir+"/e:1", "-J", "x", "--wrap",
				"pwd; ls /nonesuch; true")
		}
		for dir, id := range ids {
			expect(t, exitOK, nil, "wait", id)
			if got := readAll(t, filepath.Join(dir, "out:"+id+",\n.txt")); got != dir+"\n" {
				t.Errorf("in %q the job says %q", dir, got)
			}
		}
	})
}
