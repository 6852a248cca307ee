package cmd

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	release "gantry"

	"gantry/sqlite"

	"github.com/urfave/cli/v2"
)

// allCommands are the visible commands by name.
func allCommands() []string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.Name)
	}
	return names
}

func TestHelpFitsTheTerminal(t *testing.T) {
	for _, width := range []string{"60", "80", "132"} {
		t.Setenv("COLUMNS", width)
		most := map[string]int{"60": 60, "80": 80, "132": 100}[width]
		for _, args := range [][]string{{"help"}, {"--help"}} {
			expectNarrow(t, most, expect(t, exitOK, []string{"Usage: gantry COMMAND", "Exit codes"}, args...))
		}
		for _, name := range allCommands() {
			out := expect(t, exitOK, []string{"gantry " + name + " - ", "Usage: gantry " + name}, "help", name)
			expectNarrow(t, most, out)
			if same := expect(t, exitOK, nil, name, "--help"); name != "help" && same != out {
				t.Errorf("gantry %s --help differs from gantry help %s:\n%s\n%s", name, name, same, out)
			}
		}
	}
}

func expectNarrow(t *testing.T, most int, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > most {
			t.Errorf("%d columns, more than %d: %s", n, most, line)
		}
	}
}

func TestHelpOfACommand(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	const want = `gantry rm - remove runs: their rows in the log, files,
    containers and control groups

Usage: gantry rm [OPTIONS] [RUN...]

RUN is the whole name of a run. Its results are removed too.
A run that another gantry works on is left alone. Models
that were trained on a run stay; estimates no longer learn
from it. --before removes the runs that ended before a date,
with all that was submitted to them. It also removes
submissions that ended before it from the queue of a running
server; their tasks stay in its run.

    gantry rm merry-bohr-6b14
    gantry rm --before 2026-11-01
    gantry rm --before 30d

Exit codes: 0 removed, 2 wrong command line, 3 no such run,
4 the log, the files or Docker cannot be used, 75 another
gantry works on a run.

Options:
  --dir DIR      DIR with the log (gantry.sqlite) and a
                 directory for each run (default:
                 gantry-runs, environment: GANTRY_DIR)
  --force        remove a simulation that the log has as
                 running: its gantry was killed
  --before DATE  remove the runs that ended before DATE
                 (2026-11-01), or so long ago (30d, 12h)
`
	if got := expect(t, exitOK, nil, "help", "rm"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An option names its value, its default and what it takes once.
func TestHelpSaysThingsOnce(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	for _, name := range allCommands() {
		for text := range strings.SplitSeq(expect(t, exitOK, nil, "help", name), "\n  -") {
			if strings.Count(text, "(default: ") > 1 || strings.Count(text, "CLASS=N") > 1 {
				t.Errorf("gantry help %s: %s", name, text)
			}
		}
	}
}

// A line of usage has the arguments: words in capitals, or a choice of words.
func TestUsageNamesArguments(t *testing.T) {
	t.Setenv("COLUMNS", "132")
	arguments := regexp.MustCompile(`^Usage: gantry [\w-]+( \[OPTIONS\])?( [A-Z|. \[\]-]+| bash\|zsh\|fish| ` +
		`\[(train|drain|set|ls).*)?$`)
	for _, name := range allCommands() {
		out := expect(t, exitOK, nil, "help", name)
		line := regexp.MustCompile(`(?m)^Usage: .*$`).FindString(out)
		if !arguments.MatchString(line) {
			t.Errorf("help %s: %q", name, line)
		}
	}
}

func TestOptionsAreReportedAsTyped(t *testing.T) {
	for _, c := range []struct {
		args  []string
		words string
	}{
		{[]string{"runn"}, `unknown command "runn"; did you mean run?`},
		{[]string{"help", "simulat"}, `unknown command "simulat"; did you mean simulate?`},
		{[]string{"run", "--polcy", "heft"}, "gantry run has no option --polcy; did you mean --policy?"},
		{[]string{"run", "-polcy", "heft"}, "gantry run has no option -polcy; did you mean --policy?"},
		{[]string{"ls", "--frobnicate"}, "gantry ls has no option --frobnicate; see gantry ls --help"},
		{[]string{"run", "--policy"}, "--policy needs a value (see gantry run --help)"},
		{[]string{"run", "--count", "x"}, `invalid value "x" for --count: give a whole number (see gantry run --help)`},
		{[]string{"simulate", "--time-scale", "0", "x.dax"}, "--time-scale 0: simulated tasks take time"},
		{[]string{"completion", "tcsh"}, "bash, zsh or fish"},
	} {
		expect(t, exitUsage, []string{c.words}, c.args...)
	}
}

func TestVersionIsNamed(t *testing.T) {
	number, err := os.ReadFile("../VERSION")
	must(t, err)
	plain := "gantry " + strings.TrimSpace(string(number))
	release.Commit = "5f1d06c7"
	defer func() { release.Commit = "" }()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if out := expect(t, exitOK, nil, args...); out != plain+" (5f1d06c7)\n" {
			t.Errorf("%q", out)
		}
	}
}

// simulated makes a log with two small simulations.
func simulated(t *testing.T) (home string) {
	t.Helper()
	dir := writeFiles(t, map[string]string{"one.dax": oneTask,
		"four.yaml": "workflows:\n  - {trace: one.dax, name: a}\n  - {trace: one.dax, name: b}\n  - {trace: " +
			"one.dax, name: c}\n  - {trace: one.dax, name: d}\n"})
	home = filepath.Join(dir, "runs")
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--name", "first", filepath.Join(dir, "one.dax"))
	expect(t, exitOK, nil, "simulate", "--quiet", "--dir", home, "--name", "second", filepath.Join(dir, "four.yaml"))
	return home
}

func TestLsNamesWorkflowsAndFitsTheTerminal(t *testing.T) {
	home := simulated(t)
	expect(t, exitOK, []string{"a, b, c and 1 more", "one\n", "1/1", "4/4"}, "ls", "--dir", home)
	expect(t, exitOK, []string{"tasks: gantry show --tasks second"}, "show", "--dir", home, "second")
	expect(t, exitOK, []string{"a/a", "d/a"}, "show", "--tasks", "--dir", home, "second")
	t.Setenv("COLUMNS", "60")
	for _, args := range [][]string{{"ls"}, {"show"}, {"show", "--tasks"}, {"explain", "first", "a"}} {
		out := expect(t, exitOK, nil, append(args, "--dir", home)...)
		for line := range strings.Lines(out) {
			if utf8.RuneCountInString(line) > 61 && !strings.Contains(line, home) {
				t.Errorf("%v: wider than 60 columns: %s", args, line)
			}
		}
	}
}

func TestRmRemovesRunsWithTheirFiles(t *testing.T) {
	home := simulated(t)
	must(t, os.MkdirAll(filepath.Join(home, "first", "results"), 0o755))
	held := locked(t, filepath.Join(home, "first", "lock"))
	expect(t, exitHeld, []string{"another gantry works on run first"}, "rm", "--dir", home, "first")
	held.Close()
	expect(t, exitInput, []string{`no run "fir"`}, "rm", "--dir", home, "fir") // never by the beginning of a name
	expect(t, exitInput, []string{"no run"}, "rm", "--dir", home, "../runs")
	expect(t, exitUsage, []string{"name the runs"}, "rm", "--dir", home)
	expect(t, exitUsage, []string{"name the runs"}, "rm", "--dir", home, "--before", "1d", "first")
	expect(t, exitUsage, []string{"--before yesterday"}, "rm", "--dir", home, "--before", "yesterday")
	if out := expect(t, exitOK, nil, "rm", "--dir", home, "--before", "1d"); out != "" {
		t.Errorf("removed of today: %s", out)
	}
	raw, err := sql.Open("sqlite3", "file:"+filepath.Join(home, sqlite.FileName))
	if err == nil {
		_, err = raw.Exec("UPDATE runs SET ended_wall = '2026-01-02T03:04:05.6Z' WHERE name = 'first'")
	}
	must(t, errors.Join(err, raw.Close()))
	expect(t, exitOK, []string{"removed run first\n"}, "rm", "--dir", home, "--before", "2026-02-01")
	expect(t, exitOK, []string{"removed run second\n"}, "rm", "--dir", home, "second")
	if out := expect(t, exitOK, nil, "ls", "--json", "--dir", home); strings.TrimSpace(out) != "[]" {
		t.Errorf("left: %s", out)
	}
	if _, err := os.Stat(filepath.Join(home, "first")); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}

func TestCompletionOffersWhatMayComeNext(t *testing.T) {
	home := simulated(t)
	t.Setenv("GANTRY_DIR", home)
	for _, c := range []struct{ line, want string }{
		{"slurm-n", ""},
		{"sim", "simulate"},
		{"ana", "analyze"},
		{"statistics fi", "first"},
		{"simulate --pol", "--policy"},
		{"simulate --policy wh", "wheft"},
		{"explain fi", "first"},
		{"explain second a/", "a/a"},
		{"show --dir elsewhere f", ""},
		{"run ", ""},
		{"completion z", "zsh"},
		{"help ver", "version"},
	} {
		out := expect(t, exitOK, nil, append([]string{completeWord}, strings.Split(c.line, " ")...)...)
		first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		if first, _, _ = strings.Cut(first, "\t"); first != c.want {
			t.Errorf("%s: %q, want %q", c.line, out, c.want)
		}
	}
}

// Each script asks a gantry; here one that answers always alike.
func TestCompletionScriptsAskGantry(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "gantry")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nprintf 'show\\tsum up\\nsimulate\\tplan\\n'\n"), 0o755))
	for shell, rest := range map[string]string{
		"bash": "\nCOMP_WORDS=(" + program + " s); COMP_CWORD=1; _gantry; printf '%s ' \"${COMPREPLY[@]}\"\n",
		"zsh":  "\n", // sourced only: completion needs an interactive zsh
		"fish": "\ncomplete -C '" + program + " s' | cut -f1 | tr '\\n' ' '\n",
	} {
		t.Run(shell, func(t *testing.T) {
			script := expect(t, exitOK, []string{completeWord}, "completion", shell)
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("needs %s: %v", shell, err)
			}
			if shell == "zsh" {
				script = "compdef() { : }\n" + script
			}
			out, err := exec.Command(program, "-c", script+rest).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if shell != "zsh" && strings.TrimSpace(string(out)) != "show simulate" {
				t.Errorf("%q", out)
			}
		})
	}
}

func TestManPagesHaveEveryCommandAndOption(t *testing.T) {
	dir := t.TempDir()
	expect(t, exitOK, []string{"pages in"}, "man", dir)
	for _, c := range commands() {
		text, err := os.ReadFile(filepath.Join(dir, "gantry-"+c.Name+".1"))
		must(t, err)
		for _, f := range c.Flags {
			if doc, ok := f.(cli.DocGenerationFlag); ok && !strings.Contains(string(text), roff(dashed(f.Names()[0]))) {
				t.Errorf("gantry-%s.1 lacks %s: %s", c.Name, f.Names()[0], doc.GetUsage())
			}
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "'") {
				t.Errorf("gantry-%s.1: a line begins with an apostrophe: %s", c.Name, line)
			}
		}
	}
	man, err := exec.LookPath("man")
	if err != nil {
		return
	}
	cmd := exec.Command(man, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", filepath.Join(dir, "gantry-run.1"))
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "PAGER=cat")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "policy") || strings.Contains(string(out), "warning:") {
		t.Errorf("%v\n%s", err, out)
	}
}
