package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// cpu is what this process has used so far.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend logs the life of tasks: a round that orders, a start and an exit, so three events a task.
// "cpu-us/task" is user and system time of the whole process, the encoding of events and the writing of pages included.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name  string
		mode  sqlite.Mode
		tasks int // to a batch
	}{{"durable/1", sqlite.Durable, 1}, {"durable/3", sqlite.Durable, 3}, {"bulk/3", sqlite.Bulk, 3},
		{"bulk/1000", sqlite.Bulk, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			db := open(b, filepath.Join(b.TempDir(), sqlite.FileName), c.mode)
			run, err := db.CreateRun(context.Background(), logtest.Info("bench"))
			if err != nil {
				b.Fatal(err)
			}
			defer run.Close()
			kinds, parents := make([]string, b.N), make([][]int32, b.N)
			for i := range kinds {
				kinds[i] = "k"
			}
			a := logtest.Admission("w", kinds, parents)
			if err := run.Append(context.Background(),
				executor.Batch{Events: []planner.Event{{Seq: 1, Body: &a.Arrived}},
					Admissions: []*executor.Admission{a}}); err != nil {
				b.Fatal(err)
			}
			seq := uint64(1)
			next := func(batch *executor.Batch, body planner.Body) {
				seq++
				batch.Events = append(batch.Events, planner.Event{Seq: seq, At: planner.Time(seq), Body: body})
			}
			var batch executor.Batch
			b.ResetTimer()
			began := cpu(b)
			for i := 0; i < b.N; {
				n := min(c.tasks, b.N-i)
				batch.Events = batch.Events[:0]
				// As in the loop: what ended frees the place for what is ordered next, so a batch has exits of earlier
				// tasks.
				plan := &planner.PlanCommitted{Round: int64(seq)}
				for j := range n {
					plan.Orders = append(plan.Orders, planner.Order{Kind: planner.OrderStart,
						Attempt: planner.AttemptID(i + j), Task: planner.TaskID(i + j), Try: 1,
						Hold: unit.Cores(1), Until: 1e9, Est: planner.Estimate{Run: 1e9,
							Source: planner.SourceDeclared}})
				}
				for j := range n {
					if k := i + j - n; k >= 0 {
						next(&batch, &planner.AttemptExited{Attempt: planner.AttemptID(k), Outcome: planner.OK,
							Ran: 5e8, Usage: planner.Usage{Queued: 1, Staged: 2e8,
								Created: 3e8, Started: 4e8, Ended: 9e8, CPUUser: 4e8, CPUSystem: 1e7, PeakMemory: 5e7,
								ReadBytes: 1e6, WrittenBytes: 1e6,
								Applied: planner.Limits{CPUMillicores: 1000, Memory: 1 << 27, PIDs: 100}}})
					}
				}
				next(&batch, plan)
				for j := range n {
					next(&batch, planner.AttemptStarted{Attempt: planner.AttemptID(i + j)})
				}
				if err := run.Append(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
				i += n
			}
			b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-us/task")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkAdmit logs the arrival of a workflow of 10,000 tasks with two parents each.
func BenchmarkAdmit(b *testing.B) {
	const n = 10_000
	kinds, parents := make([]string, n), make([][]int32, n)
	for i := range kinds {
		kinds[i] = fmt.Sprint("kind", i%10)
		if i > 1 {
			parents[i] = []int32{int32(i - 2), int32(i - 1)}
		}
	}
	db := open(b, filepath.Join(b.TempDir(), sqlite.FileName), sqlite.Bulk)
	for i := range b.N {
		run, err := db.CreateRun(context.Background(), logtest.Info(fmt.Sprint("bench", i)))
		if err != nil {
			b.Fatal(err)
		}
		a := logtest.Admission("w", kinds, parents)
		b.StartTimer()
		began := cpu(b)
		if err := run.Append(context.Background(), executor.Batch{Events: []planner.Event{{Seq: 1, Body: &a.Arrived}},
			Admissions: []*executor.Admission{a}}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64((cpu(b)-began).Microseconds())/n, "cpu-us/task")
		b.StopTimer()
		run.Close()
	}
}
