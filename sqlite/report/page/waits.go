package page

import (
	"gantry/sqlite"
	"gantry/sqlite/report/history"
)

// reasonText is a reason of the log in words; "": tasks that wait for parents or for their release do not count as
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
		w.Reason, w.Node = append(w.Reason, reasons.Number(x.Reason+" "+x.Dim)), append(w.Node, x.Node)
		w.Until = append(w.Until, max(0, x.Until-x.Since))
		if len(reasons.Texts) > len(r.out.Causes) {
			r.out.Causes = append(r.out.Causes, reasonText(x.Reason, x.Dim))
		}
		return nil
	}, `SELECT task, since_ns, reason, coalesce(dim, ''), coalesce(node, -1), coalesce(until_ns, 0) FROM waits
		WHERE run = ? ORDER BY task, since_ns, seq`, r.ID)
	r.out.Reasons = reasons.Texts
}
