package server_test

import (
	"reflect"
	"testing"

	"gantry/cmd/internal/server"
	"gantry/executor"
	"gantry/trace"
)

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
