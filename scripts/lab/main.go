// Command lab writes the turnaround and the core time of each user of examples/lab, planned and measured: a page,
// lab.html in the directory, and the same tables on standard output as Markdown.
//
//	go run ./scripts/lab DIR POLICY...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// hold is how long an attempt had cores.
type hold struct {
	tenant       string
	cores        float64
	began, ended float64
	estimate     float64 // of its time, when it started
}

type run struct {
	policy string
	flows  []flow
	holds  []hold
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
	page := filepath.Join(os.Args[1], "lab.html")
	if err := os.WriteFile(page, []byte(document(all)), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(4)
	}
	for i := range all {
		fmt.Printf("\nPolicy %s:\n\n%s", all[i].policy, markdown(table(&all[i])))
	}
	fmt.Printf("\nBy user:\n\n%s\nwrote %s: open it in a browser\n", markdown(users(all)), page)
}

func read(dir, policy string) (*run, error) {
	ctx := context.Background()
	db, err := sqlite.Open(filepath.Join(dir, policy, "runs", sqlite.FileName), sqlite.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	r := &run{policy: policy}
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
		var h hold
		err := scan(&h.tenant, &h.cores, &h.began, &h.ended, &h.estimate)
		r.holds = append(r.holds, h)
		return err
	}, `SELECT w.tenant, a.hold_millicores / 1e3, a.queued_ns / 1e9, a.ended_ns / 1e9,
			coalesce(a.estimate_ns, 0) / 1e9
		FROM attempts a JOIN tasks t ON t.run = a.run AND t.task = a.task
		JOIN workflows w ON w.run = t.run AND w.workflow = t.workflow JOIN runs r ON r.id = w.run
		WHERE r.name = ? AND a.ended_ns IS NOT NULL`, policy); err != nil {
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

// table has a row for each workflow; times are from when it was handed in.
func table(r *run) [][]string {
	out := [][]string{{"user", "workflow", "tasks", "handed in at", "waited", "took", "planned", "interval of 80 %",
		"deadline", "CPU"}}
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
		out = append(out, []string{f.tenant, f.name, fmt.Sprint(f.tasks), seconds(f.arrived),
			seconds(f.started - f.arrived), seconds(f.ended - f.arrived), planned, interval, due, seconds(f.cpu)})
	}
	return out
}

// users has a row for each user and policy: the turnaround, on average over the workflows, and the core time in all,
// planned and measured. Planned core time is by the estimates of tasks when they started.
func users(all []run) [][]string {
	out := [][]string{{"user", "policy", "workflows", "turnaround planned", "turnaround", "waited",
		"core time planned", "core time held"}}
	for _, who := range tenants(all) {
		for i := range all {
			var took, planned, waited, held, estimated float64
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
			for _, h := range all[i].holds {
				if h.tenant == who {
					held, estimated = held+h.cores*(h.ended-h.began), estimated+h.cores*h.estimate
				}
			}
			text := "–"
			if known > 0 {
				text = seconds(planned / float64(known))
			}
			if known > 0 && known < n {
				text += fmt.Sprintf(" (%d of %d)", known, n)
			}
			out = append(out, []string{who, all[i].policy, fmt.Sprint(n), text, seconds(took / float64(n)),
				seconds(waited / float64(n)), seconds(estimated), seconds(held)})
		}
	}
	return out
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

func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}

var colours = []string{"#3b6fb6", "#d9822b", "#3f9b63", "#8a5bb5", "#b5485d"}

// chart draws the cores that each user held over time, one above the other, and the deadlines.
func chart(r *run, names []string, until float64) string {
	const width, height, bins = 900.0, 160.0, 450
	cores := 0.0
	held := make([][bins]float64, len(names))
	for _, h := range r.holds {
		k := slices.Index(names, h.tenant)
		for i := int(h.began / until * bins); i < bins && float64(i)*until/bins < h.ended; i++ {
			from, to := max(h.began, float64(i)*until/bins), min(h.ended, float64(i+1)*until/bins)
			held[k][i] += h.cores * max(0, to-from) / until * bins
		}
	}
	var sums [bins]float64
	for i := range bins {
		for k := range held {
			sums[i] += held[k][i]
		}
		cores = max(cores, sums[i])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="cores by user">`, width+40, height+30)
	below := [bins]float64{}
	for k := range names {
		fmt.Fprintf(&b, `<g fill="%s">`, colours[k%len(colours)])
		for i, v := range held[k] {
			if v < 0.005 {
				continue
			}
			top := below[i] + v
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f"/>`, 30+float64(i)*width/bins,
				5+height*(1-top/cores), width/bins+0.2, height*v/cores)
			below[i] = top
		}
		b.WriteString("</g>")
	}
	for _, f := range r.flows {
		if f.due > 0 && f.due < until {
			x := 30 + f.due/until*width
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="5" y2="%g" stroke="#c00"/>`+
				`<text x="%.1f" y="16" fill="#c00">%s due</text>`, x, x, height+5, x+3, html.EscapeString(f.name))
		}
	}
	fmt.Fprintf(&b, `<text x="0" y="14">%.1f</text><text x="30" y="%g">0</text><text x="%g" y="%g">%.0f s</text></svg>`,
		cores, height+22, width-10, height+22, until)
	return b.String()
}

func rowsOf(rows [][]string) string {
	var b strings.Builder
	b.WriteString("<table>")
	for i, row := range rows {
		cell := "td"
		if i == 0 {
			cell = "th"
		}
		b.WriteString("<tr>")
		for _, text := range row {
			fmt.Fprintf(&b, "<%s>%s</%s>", cell, html.EscapeString(text), cell)
		}
		b.WriteString("</tr>")
	}
	return b.String() + "</table>"
}

func document(all []run) string {
	names, until := tenants(all), 1.0
	for i := range all {
		for _, f := range all[i].flows {
			until = max(until, f.ended)
		}
	}
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><title>What each user got</title><style>
body{font:15px/1.4 sans-serif;max-width:62em;margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}
td,th{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:right}td:first-child,th:first-child,td:nth-child(2),
th:nth-child(2){text-align:left}svg{width:100%}text{font:11px sans-serif}b{padding-right:1em}</style>
<h1>What each user got</h1><p>Times are measured, from when a workflow was handed in to when it ended.
“Planned” is what gantry expected when the workflow was handed in, and of core time when each task started. Nothing
is expected of workflows that grow, as those of Snakemake, but for the time of their tasks.</p>`)
	b.WriteString("<h2>By user</h2>" + rowsOf(users(all)))
	for i := range all {
		fmt.Fprintf(&b, "<h2>Policy %s</h2><p>", html.EscapeString(all[i].policy))
		for k, name := range names {
			fmt.Fprintf(&b, `<b style="color:%s">%s</b>`, colours[k%len(colours)], html.EscapeString(name))
		}
		fmt.Fprintf(&b, " cores held over time</p>%s%s", chart(&all[i], names, until), rowsOf(table(&all[i])))
	}
	return b.String() + "</html>\n"
}
