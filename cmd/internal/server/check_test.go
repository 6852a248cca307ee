package server_test

import (
	"reflect"
	"strings"
	"testing"

	"gantry/cmd/internal/server"
	"gantry/executor"
	"gantry/trace"
)

// The name of a program is a path in the directory of a task, into which gantry copies the program.
func TestNoProgramLeavesTheDirectoryOfItsTask(t *testing.T) {
	for name, right := range map[string]bool{"bin/tool": true, "": true, "../tool": false, "/etc/cron.d/x": false,
		".command.sh": false} {
		file := trace.File{Name: "f", Producer: -1, Origin: &trace.Origin{Program: name}}
		s := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Files: []trace.File{file}}}
		if err := server.CheckSubmission(s, 1); (err == nil) != right {
			t.Errorf("program %q: %v", name, err)
		}
	}
}

// A client may send any number. None of a task may be far out of range, whatever it means.
func TestNoNumberOfATaskIsTakenUnchecked(t *testing.T) {
	for field := range reflect.TypeFor[trace.Task]().Fields() {
		for _, bad := range []int64{-1 << 62, 1<<62 + 1} {
			task := trace.Task{ID: "a", Retries: -1}
			v := reflect.ValueOf(&task).Elem().FieldByIndex(field.Index)
			switch {
			case field.Name == "Line", !v.CanInt() && !v.CanFloat(): // lines are only for messages
				continue
			case v.CanInt() && v.OverflowInt(bad):
				v.SetInt(bad >> (64 - v.Type().Bits()))
			case v.CanInt():
				v.SetInt(bad)
			default:
				v.SetFloat(float64(bad))
			}
			s := &executor.Submission{Name: "w", Workflow: &trace.Workflow{Tasks: []trace.Task{task}}}
			if err := server.CheckSubmission(s, 1); err == nil {
				t.Errorf("%s is %v", field.Name, v)
			}
		}
	}
}

// A command that is expanded is a program and one text.
func TestACommandWithoutATextToExpandIsRefused(t *testing.T) {
	for _, command := range [][]string{{"x"}, {}, nil, {"x", "y", "z"}} {
		task := trace.Task{ID: "a", Retries: -1, Expand: true, Command: command}
		if err := server.CheckSubmission(&executor.Submission{Name: "w",
			Workflow: &trace.Workflow{Tasks: []trace.Task{task}}}, 1); err == nil {
			t.Errorf("%q is taken", command)
		}
		executor.CommandLine(&executor.TaskSpec{Expand: true, Command: command}) // of a log that has it already
	}
	text := strings.Repeat("$A", 40)
	if line := executor.Written(&executor.TaskSpec{Expand: true, Command: []string{"x", text},
		Env: []string{"A=" + strings.Repeat("a", 100_000)}}); line != "x "+text {
		t.Errorf("the log would have %d bytes of the command", len(line))
	}
}

// Clients look for files, with the rights of their users: the server never does.
func TestFilesWithoutSourcesAreRefused(t *testing.T) {
	s := &executor.Submission{Name: "w", Inputs: "/root", Workflow: &trace.Workflow{
		Files: []trace.File{{Name: "secret", Producer: -1}}}}
	if err := server.CheckSubmission(s, 1); err == nil || !strings.Contains(err.Error(), "no sources") {
		t.Errorf("it is taken: %v", err)
	}
	if s.Sources = make([]executor.Source, 1); server.CheckSubmission(s, 1) != nil {
		t.Error("a file that is not there is refused")
	}
}
