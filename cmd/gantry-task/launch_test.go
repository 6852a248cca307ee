package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program is the user that was asked for, in exactly the groups that were asked for.
func TestTheProgramIsTheUserAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	for _, c := range []struct{ user, uid, gid, groups string }{
		{"47001:47002", "47001", "47002", ""},
		{"47001:47002:5", "47001", "47002", "5"},
		{"47001:47002:47000,5,6", "47001", "47002", "5 6 47000"},
		{"47001:47002:", "", "", ""},
		{"47001:47002:5,", "", "", ""},
		{"47001:47002:,5", "", "", ""},
		{"47001:47002:5:6", "", "", ""},
		{"47001:47002:daemon", "", "", ""},
		{"47001:4294967296", "", "", ""},
		{"-1:47002", "", "", ""},
		{"47001:", "", "", ""},
		{"47001", "", "", ""},
	} {
		cmd := exec.Command(binary, "launch", t.TempDir(), c.user, "1000", "", "", "", "cat", "/proc/self/status")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if c.uid == "" {
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 125 ||
				!strings.Contains(string(out), "is not UID:GID, or UID:GID:GROUPS") {
				t.Errorf("%s: %v\n%s", c.user, err, out)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", c.user, err, out)
			continue
		}
		got := map[string]string{}
		for _, line := range strings.Split(string(out), "\n") {
			key, value, _ := strings.Cut(line, ":")
			got[key] = strings.Join(strings.Fields(value), " ")
		}
		four := func(id string) string { return strings.Join([]string{id, id, id, id}, " ") }
		if got["Uid"] != four(c.uid) || got["Gid"] != four(c.gid) || got["Groups"] != c.groups {
			t.Errorf("%s: Uid %q, Gid %q, Groups %q", c.user, got["Uid"], got["Gid"], got["Groups"])
		}
	}
}

// Who finds the attempt claimed does not begin its program.
func TestAnAttemptBeginsOnce(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"begun\n", "gantry-task: this attempt was given up, or had begun before\n"} {
		cmd := exec.Command(binary, "launch", dir, "0:0", "1000", "", "", "", "echo", "begun")
		cmd.Dir = filepath.Dir(dir)
		if out, _ := cmd.CombinedOutput(); string(out) != want {
			t.Errorf("the launcher says %q, want %q", out, want)
		}
	}
}
