package page

import (
	"cmp"

	"gantry/sqlite"
	"gantry/sqlite/report/history"
)

// causes are reasons of the log in words, some by their dimension, too. There are none of tasks that wait for parents
// or for their release: these do not count as waiting.
var causes = map[string]string{
	"no-node-free cpu":    "no core is free",
	"no-node-free memory": "no memory is free",
	"no-node-free disk":   "no disk bandwidth is free",
	"no-node-free gpu":    "no GPU is free",
	"no-node-free":        "no node is free",
	"waits-for-files":     "data is moving",
	"planned-later":       "the plan has it later",
	"outranked":           "the policy holds it back",
	"unplaced":            "the policy holds it back",
	"tokens-held":         "others hold the tokens that it needs",
	"no-node":             "no node can take it",
	"draining":            "the run is being stopped",
}

// waits reads the reasons for which tasks waited, in words, too.
func (r *reader) waits() {
	reasons, w := history.NewList(), &r.out.Wait
	r.out.Causes = []string{}
	sqlite.For(r.Questions, func(x *struct {
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
		reason := x.Reason + " " + x.Dim
		w.Reason, w.Node = append(w.Reason, reasons.Number(reason)), append(w.Node, x.Node)
		w.Until = append(w.Until, max(0, x.Until-x.Since))
		if len(reasons.Texts) > len(r.out.Causes) {
			r.out.Causes = append(r.out.Causes, cmp.Or(causes[reason], causes[x.Reason]))
		}
		return nil
	}, `SELECT task, since_ns, reason, coalesce(dim, ''), coalesce(node, -1), coalesce(until_ns, 0) FROM waits
		WHERE run = ? ORDER BY task, since_ns, seq`, r.ID)
	r.out.Reasons = reasons.Texts
}
