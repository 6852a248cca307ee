// Command lab prints the turnaround and the core time of each user of examples/lab, planned and measured, as tables in
// Markdown.
//
//	go run ./scripts/lab DIR POLICY...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gantry/scripts/measure"
	"gantry/sqlite"
)

// flow is a workflow of a run; seconds since the run began.
type flow struct {
	name, tenant, state     string
	arrived, started, ended float64
	due                     float64 // 0: none
	tasks                   int
	cpu                     float64 // that its programs used
	end, low, high          float64 // expected when it was handed in; 0: nothing was
}

// hold is the core time of a user: held, and estimated when attempts started.
type hold struct{ held, estimated float64 }

type run struct {
	policy string
	flows  []flow
	holds  map[string]hold // by user
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: lab DIR POLICY...")
		os.Exit(2)
	}
	var all []run
	for _, policy := range os.Args[2:] {
		r, err := read(os.Args[1], policy)
		if err != nil {
			fmt.Fprintf(os.Stderr, "lab: policy %s: %v\n", policy, err)
			os.Exit(3)
		}
		all = append(all, *r)
	}
	for i := range all {
		fmt.Printf("\nPolicy %s:\n\n", all[i].policy)
		table(&all[i])
	}
	fmt.Print("\nBy user:\n\n")
	users(all)
}

func read(dir, policy string) (*run, error) {
	ctx := context.Background()
	db, err := sqlite.Open(filepath.Join(dir, policy, "runs", sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	r := &run{policy: policy, holds: map[string]hold{}}
	info, err := db.Info(ctx, policy)
	if err != nil {
		return nil, err
	}
	if err := db.Each(ctx, func(scan sqlite.Scan) error {
		var f flow
		if err := scan(&f.name, &f.tenant, &f.state, &f.arrived, &f.started, &f.ended, &f.due, &f.tasks,
			&f.cpu); err != nil {
			return err
		}
		r.flows = append(r.flows, f)
		return nil
	}, `SELECT w.name, w.tenant, w.state, w.arrived_ns / 1e9,
			coalesce(w.started_ns, w.arrived_ns) / 1e9, w.ended_ns / 1e9, coalesce(w.due_ns, 0) / 1e9,
			count(DISTINCT a.task),
			coalesce(sum(a.cpu_user_ns + a.cpu_system_ns), 0) / 1e9
		FROM workflows w JOIN tasks t ON t.run = w.run AND t.workflow = w.workflow
		JOIN attempts a ON a.run = t.run AND a.task = t.task JOIN runs r ON r.id = w.run
		WHERE r.name = ? GROUP BY w.workflow ORDER BY w.arrived_ns`, policy); err != nil {
		return nil, err
	}
	if err := db.Each(ctx, func(scan sqlite.Scan) error {
		var who string
		var h hold
		err := scan(&who, &h.held, &h.estimated)
		r.holds[who] = h
		return err
	}, `SELECT w.tenant, sum(a.hold_millicores / 1e12 * (a.ended_ns - a.queued_ns)),
			sum(a.hold_millicores / 1e12 * coalesce(a.estimate_ns, 0))
		FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow JOIN runs r ON r.id = w.run
		WHERE r.name = ? AND a.ended_ns IS NOT NULL GROUP BY w.tenant`, policy); err != nil {
		return nil, err
	}
	return r, r.planned(filepath.Join(dir, policy), info.Started)
}

// planned reads the end that gantry expected of each workflow at its submission, with the interval.
func (r *run) planned(dir string, began time.Time) error {
	paths, err := filepath.Glob(filepath.Join(dir, "planned-*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var q struct { // as package api has it
			Submissions []struct {
				ID       int64
				Name     string
				Expected *struct{ End, Low, High time.Time }
			}
		}
		if err := json.Unmarshal(text, &q); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range q.Submissions {
			k := slices.IndexFunc(r.flows, func(f flow) bool { return f.name == s.Name })
			if k < 0 || s.Expected == nil || s.Expected.End.IsZero() ||
				filepath.Base(path) != fmt.Sprintf("planned-%d.json", s.ID) {
				continue
			}
			f := &r.flows[k]
			f.end, f.low, f.high = s.Expected.End.Sub(began).Seconds(), s.Expected.Low.Sub(began).Seconds(),
				s.Expected.High.Sub(began).Seconds()
		}
	}
	return nil
}

// table prints a row for each workflow; times are from when it was handed in.
func table(r *run) {
	measure.Head(os.Stdout, "---", "user", "workflow", "tasks", "handed in at", "waited", "took", "planned",
		"interval of 80 %", "deadline", "CPU")
	for _, f := range r.flows {
		planned, interval, due := "–", "–", "–"
		if f.end > 0 {
			planned = seconds(f.end - f.arrived)
			interval = seconds(f.low-f.arrived) + " to " + seconds(f.high-f.arrived)
		}
		if f.due > 0 {
			if due = seconds(f.due - f.arrived); f.ended <= f.due {
				due += ", met"
			} else {
				due += ", missed by " + seconds(f.ended-f.due)
			}
		}
		measure.Row(os.Stdout, f.tenant, f.name, fmt.Sprint(f.tasks), seconds(f.arrived), seconds(f.started-f.arrived),
			seconds(f.ended-f.arrived), planned, interval, due, seconds(f.cpu))
	}
}

// users prints a row for each user and policy: the turnaround, on average over the workflows, and the core time in all,
// planned and measured. Planned core time is by the estimates of tasks when they started.
func users(all []run) {
	measure.Head(os.Stdout, "---", "user", "policy", "workflows", "turnaround planned", "turnaround", "waited",
		"core time planned", "core time held")
	for _, who := range tenants(all) {
		for i := range all {
			var took, planned, waited float64
			n, known := 0, 0
			for _, f := range all[i].flows {
				if f.tenant != who {
					continue
				}
				n++
				took, waited = took+f.ended-f.arrived, waited+f.started-f.arrived
				if f.end > 0 {
					known++
					planned += f.end - f.arrived
				}
			}
			if n == 0 {
				continue
			}
			text := "–"
			if known > 0 {
				text = seconds(planned / float64(known))
			}
			if known > 0 && known < n {
				text += fmt.Sprintf(" (%d of %d)", known, n)
			}
			measure.Row(os.Stdout, who, all[i].policy, fmt.Sprint(n), text, seconds(took/float64(n)),
				seconds(waited/float64(n)), seconds(all[i].holds[who].estimated),
				seconds(all[i].holds[who].held))
		}
	}
}

func tenants(all []run) (names []string) {
	for i := range all {
		for _, f := range all[i].flows {
			names = append(names, f.tenant)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }
