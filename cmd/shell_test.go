package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gantry/cmd/internal/session"
)

// A shell has the files, the environment and the limits of its task, on a terminal, too, and nothing of it stays; what
// is left after kill -9 goes with gantry clean.
func TestAShellIsLikeItsTask(t *testing.T) {
	beside(t)
	needsBusybox(t)
	for _, runtime := range runtimesOf(t) {
		t.Run(runtime, func(t *testing.T) { testShell(t, runtime) })
	}
}

func testShell(t *testing.T, runtime string) {
	c := cliTest{t, t.TempDir()}
	in := filepath.Dir(c.write("in/text.txt", "to be\n"))
	flow := shellFlow(t, filepath.Join(c.dir, "flow.json"), shellTask{"upper", "text.txt", "upper.txt",
		"tr a-z A-Z <text.txt >upper.txt"})
	c.gantry(exitOK, "run", "-q", "--runtime", runtime, "--inputs", in, "--env", "LEVEL=2", "--name", "r", flow)
	self := gantryLink(t)
	shell := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", `echo 500 >/proc/self/oom_score_adj; exec "$@"`, "sh", self, "shell",
			"--dir", filepath.Join(c.dir, "runs"), "r", "upper")
		cmd.Env = append(os.Environ(), "TERM=xterm")
		return cmd
	}
	outer, inner := terminalPair(t)
	cmd := shell()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, inner
	must(t, cmd.Start())
	inner.Close()
	if _, err := outer.WriteString("sh .command.sh; echo =$LEVEL= $(cat upper.txt); tty; id -u; " +
		"grep -h -e CapBnd -e NoNewPrivs /proc/self/status; touch /x; " +
		"echo score $(cat /proc/self/oom_score_adj); exit 7\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(outer) // ends with an error once nobody has the terminal open
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the shell ended with %v, want 7", err)
	}
	for _, want := range []string{"=2= TO BE", "/dev/pts/", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
		"Read-only file system", "score 0\r\n"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the terminal got %q, which lacks %q", said, want)
		}
	}
	left := func() []string {
		all, _ := filepath.Glob(filepath.Join(c.dir, "runs", "r", "work", "flow", "upper-shell.*"))
		return all
	}
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("left are %v", dirs)
	}

	groups := func() []string {
		all, _ := filepath.Glob("/sys/fs/cgroup/*/gantry-shell-*")
		return all
	}
	before := groups() // of others' shells
	cmd = shell()
	stdin, err := cmd.StdinPipe()
	must(t, err)
	var out bytes.Buffer
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.WriteString(stdin, "echo here\n")
	}
	if err == nil {
		_, err = io.CopyN(&out, stdout, 5)
	}
	if err != nil || out.String() != "here\n" {
		t.Fatalf("%q, %v", out.String(), err)
	}
	mine := slices.DeleteFunc(groups(), func(g string) bool { return slices.Contains(before, g) })
	name := "gantry-shell-" + strings.TrimPrefix(filepath.Ext(left()[0]), ".")
	if done, _ := c.gantry(exitOK, "clean", "r"); strings.Contains(done, name) {
		t.Errorf("a shell that is used was removed: %s", done)
	}
	if runtime == "oci" {
		gone, _, err := session.RemoveStored(t.Context())
		if err != nil || strings.Contains(fmt.Sprint(gone), "busybox") {
			t.Errorf("beside an open shell gantry clean --images removes %v, %v", gone, err)
		}
	}
	if _, err = io.WriteString(stdin, "echo still\n"); err == nil {
		_, err = io.CopyN(&out, stdout, 6)
	}
	if err != nil || out.String() != "here\nstill\n" {
		t.Errorf("after gantry clean the shell said %q, %v", out.String(), err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if done, _ := c.gantry(exitOK, "clean", "r"); !strings.Contains(done, name) || len(left()) > 0 {
		t.Errorf("after kill -9 gantry clean says %q, and left are %v", done, left())
	}
	there := func() bool {
		if runtime == "docker" {
			return exec.Command("docker", "container", "inspect", name).Run() == nil
		}
		return slices.ContainsFunc(groups(), func(g string) bool { return slices.Contains(mine, g) })
	}
	eventually(t, func() (bool, any) { return !there(), "container " + name + " is there" })
}
