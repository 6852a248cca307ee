package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/planner"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// terminalPair opens a terminal: what is written to inner is read from outer.
func terminalPair(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { outer.Close() })
	number, err := unix.IoctlGetInt(int(outer.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(outer.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return outer, inner
}

// onTerminal runs a program on a terminal, and returns what that got.
func onTerminal(t *testing.T, program *exec.Cmd) string {
	t.Helper()
	outer, inner := terminalPair(t)
	program.Stdout, program.Stderr = inner, inner
	must(t, program.Start())
	inner.Close()
	all, _ := io.ReadAll(outer) // ends with an error once nobody has the terminal open
	if err := program.Wait(); err != nil {
		t.Error(err)
	}
	return string(all)
}

func TestLogsShowsEscapesOnATerminalOnly(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) { logtest.Diamond(t, db, "calm-hopper-1111") })
	work := filepath.Join(dir, "calm-hopper-1111", "work", "diamond", "work_2-2")
	must(t, os.MkdirAll(work, 0o755))
	const text = "\x1b[2Jgone\n"
	for _, name := range []string{".command.out", ".command.err"} {
		cliTest{t, work}.write(name, name+text)
	}
	var out, errs bytes.Buffer
	piped := gantryProcess(t, "logs", "work_2", "--dir", dir)
	piped.Stdout, piped.Stderr = &out, &errs
	if err := piped.Run(); err != nil || out.String() != ".command.out"+text || errs.String() != ".command.err"+text {
		t.Errorf("in a pipe: %v, %q, %q", err, out.String(), errs.String())
	}
	all := onTerminal(t, gantryProcess(t, "logs", "work_2", "--dir", dir))
	for _, want := range []string{".command.out^[[2Jgone", ".command.err^[[2Jgone"} {
		if !strings.Contains(all, want) {
			t.Errorf("the terminal got %q, which lacks %q", all, want)
		}
	}
	if strings.ContainsRune(all, 0x1b) {
		t.Errorf("the terminal got an escape character: %q", all)
	}
}

// On a terminal gantry's own words have colours, unless NO_COLOR is set; failures come last.
func TestATerminalHasColoursAndFailuresLast(t *testing.T) {
	dir := newLog(t, func(db *sqlite.DB) {
		l := logtest.New(t, db, logtest.Info("red"))
		id := l.Arrive(0, "flow", []string{"warning:\x1b[32mgreen"}, [][]int32{nil})
		l.Exit(2*logtest.Second, l.Start(0, id, 1, 0, 1), planner.ExitCode, 3, "no such option")
		must(t, l.Finish(t.Context(), sqlite.Failed, 1))
	})
	for _, c := range []struct {
		env  []string
		want string
	}{{nil, "\x1b[31;1mfailed:\x1b[0m"}, {[]string{"NO_COLOR=1"}, "\nfailed:"}} {
		show := gantryProcess(t, "show", "--dir", dir)
		show.Env = append(os.Environ(), append(c.env, "TERM=xterm")...)
		text := onTerminal(t, show)
		if !strings.Contains(text, c.want) || strings.Contains(text, "\x1b[32mgreen") ||
			strings.Index(text, "failed:") < strings.Index(text, "log: ") {
			t.Errorf("with %v the terminal got %q, which lacks %q, or has it not last", c.env, text, c.want)
		}
	}
}
