package page

import (
	"gantry/sqlite"
	"gantry/sqlite/report/history"
)

// waits says how many tasks waited and why, on average over each of many short spans.
type waits struct {
	Bin     float64     `json:"bin"` // length of a span
	Reasons []string    `json:"reasons"`
	Tasks   [][]float64 `json:"tasks"` // by reason and span
}

const bins = 400

// reasonText is a reason of the log in words. Tasks that wait for parents or for their release do not count as
// waiting.
func reasonText(reason, dim string) string {
	switch reason {
	case "no-node-free":
		switch dim {
		case "cpu":
			return "no core is free"
		case "memory":
			return "no memory is free"
		case "disk":
			return "no disk bandwidth is free"
		case "gpu":
			return "no GPU is free"
		}
		return "no node is free"
	case "waits-for-files":
		return "data is moving"
	case "planned-later":
		return "the plan has it later"
	case "outranked", "unplaced":
		return "the policy holds it back"
	case "tokens-held":
		return "others hold the tokens that it needs"
	case "no-node":
		return "no node can take it"
	case "draining":
		return "the run is being stopped"
	}
	return ""
}

const startsBounded = "it is being started"

func (r *reader) waits() error {
	o := &r.out.Waits
	o.Bin = max(1, float64(r.Clock)/bins)
	at := map[string]int{}
	add := func(reason string, from, to int64) {
		if reason == "" || to <= from {
			return
		}
		k, ok := at[reason]
		if !ok {
			k = len(o.Reasons)
			at[reason] = k
			o.Reasons, o.Tasks = append(o.Reasons, reason), append(o.Tasks, make([]float64, bins))
		}
		a, b := float64(from)/o.Bin, float64(to)/o.Bin
		for i := int(a); i <= int(b) && i < bins; i++ {
			o.Tasks[k][i] += max(0, min(b, float64(i+1))-max(a, float64(i)))
		}
	}
	task, since, reason := -1, int64(0), ""
	until := func(end int64) { add(reason, since, end) }
	ordered := make([]int64, len(r.Tasks)) // first orders
	for i := range ordered {
		ordered[i] = -1
	}
	for i := range r.Attempts {
		l := &r.Attempts[i]
		if ordered[l.Task] < 0 {
			ordered[l.Task] = l.Queued
		}
		if l.Started >= 0 {
			add(startsBounded, max(l.Queued, l.Staged), l.Started)
		}
	}
	first := func(t int) int64 {
		if t < len(ordered) && ordered[t] >= since {
			return ordered[t]
		}
		return r.Clock
	}
	reasons, w := history.NewList(), &r.out.Wait
	err := sqlite.EachRow(r.ctx, r.log, func(x *struct {
		Task        int
		Since       int64
		Reason, Dim string
		Node, Until int64
	}) error {
		t := r.Task(x.Task)
		if t < 0 {
			return nil // which the page does not show
		}
		w.Task, w.Since = append(w.Task, int64(t)), append(w.Since, x.Since)
		w.Reason, w.Node = append(w.Reason, reasons.Number(x.Reason+" "+x.Dim)), append(w.Node, x.Node)
		w.Until = append(w.Until, max(0, x.Until-x.Since))
		switch {
		case task < 0:
		case t == task:
			until(min(x.Since, first(task)))
		default:
			until(first(task))
		}
		task, since, reason = t, x.Since, reasonText(x.Reason, x.Dim)
		return nil
	}, `SELECT task, since_ns, reason, coalesce(dim, ''), coalesce(node, -1), coalesce(until_ns, 0) FROM waits
		WHERE run = ? ORDER BY task, since_ns, seq`, r.ID)
	if task >= 0 {
		until(first(task))
	}
	r.out.Reasons = reasons.Texts
	for _, row := range o.Tasks {
		for i := range row {
			row[i] = float64(int(row[i]*100+0.5)) / 100
		}
	}
	return err
}
