package sbatch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gantry/cmd/internal/sbatch"
)

// execute runs the command of a job as its container does, in a directory of its own, with the script's place moved
// there. It returns the directory and the exit code.
func execute(t *testing.T, script string, element int, id string, args ...string) (dir string, code int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "it's a dir, 100%j")
	must(t, os.Mkdir(dir, 0o755))
	h := host(map[string]string{"job.sh": script}, script)
	h.Dir = dir
	j, err := sbatch.Parse(args, h)
	must(t, err)
	argv := j.Argv(sbatch.Submitter{User: "ann", UID: 1000, Host: "lab", Dir: dir}, element)
	argv[2] = strings.ReplaceAll(argv[2], "/tmp/slurm_script", "'"+filepath.Join(t.TempDir(), "slurm_script")+"'")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), sbatch.ID + "=" + id}
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		t.Logf("said: %s", out)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return dir, cmd.ProcessState.ExitCode()
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	must(t, err)
	return string(data)
}

func TestJobRuns(t *testing.T) {
	script := `#!/bin/sh -u
#SBATCH -J "a 'b'" -c 2 --mem=100
echo "$SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_CPUS_PER_TASK $SLURM_MEM_PER_NODE $SLURM_SUBMIT_DIR $# $1"
pwd; echo err >&2; cat; exit 3
`
	dir, code := execute(t, script, 0, "42", "job.sh", "an 'arg'", "two")
	want := "42 a 'b' 2 100 " + dir + " 2 an 'arg'\n" + dir + "\nerr\n"
	if got := read(t, dir, "slurm-42.out"); got != want || code != 3 {
		t.Errorf("code %d, output\n%s\nwant\n%s", code, got, want)
	}
}

func TestFilesOfAJob(t *testing.T) {
	script := "#!/bin/sh\ncat; echo err >&2\n"
	dir, _ := execute(t, script, 1, "43", "--array=3,5", "-o", "out-%A_%a-%5a-%j-%x-%u-%N-%%-%t-%s", "-e", "err-%J",
		"job.sh")
	if got := read(t, dir, "out-42_5-00005-43-job.sh-ann-lab-%-0-batch"); got != "" {
		t.Errorf("output %q", got)
	}
	if got := read(t, dir, "err-43"); got != "err\n" {
		t.Errorf("standard error %q", got)
	}
	dir, _ = execute(t, script, 1, "43", "--array=3,5", "job.sh")
	if got := read(t, dir, "slurm-42_5.out"); got != "err\n" {
		t.Errorf("output %q", got)
	}
	dir, _ = execute(t, "#!/bin/sh\necho x >in; echo more\n", 0, "9", "-o", `\%j`, "--open-mode=append", "job.sh")
	if got := read(t, dir, "%j"); got != "more\n" {
		t.Errorf("output %q", got)
	}
	if _, code := execute(t, script, 0, "9", "-o", "no/such/dir", "job.sh"); code == 0 {
		t.Error("a job whose output cannot be written succeeds")
	}
}

func TestScriptComesWhole(t *testing.T) {
	script := "#!/bin/sh\n#" + strings.Repeat("x%s\\n'\"$é", 30000) + "\nwc -c <$0; echo end\n"
	dir, _ := execute(t, script, 0, "1", "job.sh")
	got := strings.Fields(read(t, dir, "slurm-1.out"))
	if len(got) != 2 || got[0] != strconv.Itoa(len(script)) || got[1] != "end" {
		t.Errorf("%q; the script has %d bytes", got, len(script))
	}
}

// TestWarning: a job gets the signal that --signal names before its limit. A sleep of the test stands for that time: it
// ends once the script is ready.
func TestWarning(t *testing.T) {
	bin := t.TempDir()
	sleep := "#!/bin/sh\necho $1 >slept\nwhile [ ! -e ready ]; do /bin/sleep 0.02; done\n"
	must(t, os.WriteFile(filepath.Join(bin, "sleep"), []byte(sleep), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\ntrap 'echo warned; exit 7' USR2\n: >ready\n" +
		"i=0\nwhile [ $i -lt 6000 ]; do /bin/sleep 0.01; i=$((i+1)); done\n"
	dir, code := execute(t, script, 0, "1", "--signal=B:USR2@20", "-t", "1", "job.sh")
	if got := read(t, dir, "slurm-1.out") + read(t, dir, "slept"); got != "warned\n40\n" || code != 7 {
		t.Errorf("code %d, output %q", code, got)
	}
}

// TestWrapped: --wrap and standard input.
func TestWrapped(t *testing.T) {
	dir, code := execute(t, "", 0, "5", "--wrap", "echo 'a  b'; false")
	if got := read(t, dir, "slurm-5.out"); got != "a  b\n" || code != 1 {
		t.Errorf("code %d, output %q", code, got)
	}
	dir, _ = execute(t, "#!/bin/sh\necho $SLURM_JOB_NAME\n", 0, "6")
	if got := read(t, dir, "slurm-6.out"); got != "sbatch\n" {
		t.Errorf("output %q", got)
	}
}
