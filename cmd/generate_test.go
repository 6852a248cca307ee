package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/trace"
)

func TestGenerateWritesWhatGantryReads(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ligo.json")
	code, out, errs := invoke(t, "generate", "LIGO", "--tasks", "31", "--seed", "5", "--total-runtime", "90m", "-o",
		path)
	if code != exitOK || out != "" || errs != "gantry: inspiral asked for with 31 tasks has 30\n" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	w, faults, err := trace.Open(path, trace.ReadOptions{})
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	var sum time.Duration
	for i := range w.Tasks {
		sum += w.Tasks[i].Runtime
	}
	if w.Format != trace.WfFormat || len(w.Tasks) != 30 || sum != 90*time.Minute {
		t.Errorf("%v of %d tasks, total %v", w.Format, len(w.Tasks), sum)
	}
	text, err := os.ReadFile(path)
	must(t, err)
	again := expect(t, exitOK, nil, "generate", "ligo", "-n", "31", "--seed=5", "--total-runtime", "1h30m")
	if again != string(text) {
		t.Error("standard output differs from the file")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v: more than the file is left", left, err)
	}
}

func TestGenerateRandomTakesDaggensFlags(t *testing.T) {
	chain := expect(t, exitOK, []string{`"multiply"`}, "generate", "random", "-n", "9", "--fat", "0", "--ccr", "3",
		"--density", "1", "--regular", "1", "--jump", "2")
	if n := strings.Count(chain, `"parents":["`); n != 8 || strings.Contains(chain, `"scan"`) {
		t.Errorf("%d tasks with parents rather than 8, or other classes than asked for:\n%s", n, chain)
	}
}

func TestGenerateRefusesWrongCommandLines(t *testing.T) {
	for _, c := range []saying{
		{exitUsage, "name one kind of workflow: montage", nil},
		{exitUsage, "name one kind of workflow", []string{"montage", "sipht", "-n", "30"}},
		{exitUsage, `no generator "montag"; did you mean montage?`, []string{"montag", "-n", "30"}},
		{exitUsage, "montage takes 13 or more", []string{"montage"}},
		{exitUsage, "at least 13", []string{"montage", "-n", "12"}},
		{exitUsage, "too large", []string{"montage", "-n", "10000001"}},
		{exitUsage, "-seed", []string{"montage", "-n", "30", "--seed", "-1"}},
		{exitUsage, "--total-runtime is -1s", []string{"montage", "-n", "30", "--total-runtime", "-1s"}},
		{exitUsage, "--jump is for random", []string{"montage", "-n", "30", "--jump", "1"}},
		{exitUsage, `fat is "1.5"`, []string{"random", "-n", "30", "--fat", "1.5"}},
		{exitUsage, `density is "NaN"`, []string{"random", "-n", "30", "--density", "NaN"}},
		{exitHost, "not a directory", []string{"montage", "-n", "30", "-o", "generate_test.go/x.json"}},
	} {
		expect(t, c.code, []string{c.says}, append([]string{"generate"}, c.args...)...)
	}
}

func TestGenerateListsItsKinds(t *testing.T) {
	expect(t, exitOK, []string{"montage", "cybershake", "epigenomics", "inspiral", "sipht", "random"}, "generate",
		"--list")
}

func TestGenerateWritesIntoAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	text := make(chan string)
	go func() {
		b, _ := os.ReadFile(pipe)
		text <- string(b)
	}()
	expect(t, exitOK, nil, "generate", "montage", "-n", "30", "-o", pipe)
	if got, want := <-text, expect(t, exitOK, nil, "generate", "montage", "-n", "30"); got != want {
		t.Errorf("the pipe carried %d bytes, want %d", len(got), len(want))
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode().IsRegular() {
		t.Errorf("the pipe was replaced: %v %v", info, err)
	}
}
