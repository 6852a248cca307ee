package stage_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/planner"
)

// Whatever name a workflow has, its user gets no directory of another one's.
func TestDirectoriesOfAnotherUserStayTheirs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, name := range []string{"work", "results", "partial", "nodes/n0"} {
		s, dir := area(t, 1)
		mine := &executor.WorkflowSpec{Name: "mine", By: &executor.User{UID: 12345, GID: 12345}}
		theirs := filepath.Join(dir, filepath.FromSlash(name), "mine")
		for _, err := range []error{os.Mkdir(theirs, 0o700), os.Lchown(theirs, 23456, 23456)} {
			must(t, err)
		}
		if err := s.As(mine, func() error { return nil }); err == nil || !strings.Contains(err.Error(), theirs) {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(theirs); err != nil || info.Sys().(*syscall.Stat_t).Uid != 23456 {
			t.Errorf("%s is another user's now (%v)", name, err)
		}
	}
}

// The server that continues a run finds the directories of it, of which the last was not given away yet.
func TestDirectoriesOfTheRunBeforeAreTaken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s, dir := area(t, 1)
	opened(t, dir)
	mine := &executor.WorkflowSpec{Name: "mine", By: &executor.User{UID: 12345, GID: 12345}}
	as := func(s *stage.Area) {
		file := filepath.Join(s.NodeDir(0, mine), "f")
		must(t, s.As(mine, func() error { return os.WriteFile(file, nil, 0o600) }))
	}
	as(s)
	must(t, os.Lchown(filepath.Join(dir, "results", "mine"), 0, 0))
	again, err := stage.Open(dir, &planner.Platform{Nodes: []planner.Node{{Name: "n0"}, {ID: 1, Name: "n1"}}}, 1)
	must(t, err)
	as(again)
}

// A long name is cut, and neither a made-up one nor a short one gets its directory.
func TestLongNamesAreToldApartByAHashThatCannotBeInverted(t *testing.T) {
	long := executor.EscapeName(strings.Repeat("a", 200))
	at := strings.LastIndexByte(long, '%')
	if len(long)-at-1 < 32 || len(long) <= 120 {
		t.Errorf("%q has a hash of less than 128 bits, or is as short as a name that is not cut", long)
	}
}
