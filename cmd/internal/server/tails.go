package server

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"time"

	"gantry/executor"
	"gantry/sqlite"
)

const (
	mostEarlier = 2000            // single tasks that tails are learned from: the latest
	relearn     = 2 * time.Second // after which they are learned again
	deepest     = 6               // directories above a path that are looked for among those that tasks write
)

// tails are learned from earlier single tasks: how long the tasks take that come after one of a kind. Workflow systems
// hand in a task once it is ready, so its ancestors are known, and none of its descendants. But the next run of a
// pipeline has the kinds of tasks of the last one: their graph, with mean runtimes, has their upward ranks.
type tails struct {
	learned time.Time
	after   map[string]time.Duration // by kind, as kindOf names it
}

// kindOf names a kind of tasks of a user's workflow.
func kindOf(uid int, workflow, kind string) string {
	return fmt.Sprintf("%d/%s/%s", uid, workflow, kind)
}

func placeOf(uid int, path string) string { return strconv.Itoa(uid) + path }

// tail gives a single task the tail of its kind, unless its user gave it one. A fault of the log is no reason to refuse
// a task: it is ranked by itself then.
func (s *Server) tail(ctx context.Context, sub *executor.Submission, more *options, by Peer) {
	task := &sub.Workflow.Tasks[0]
	if task.Tail > 0 || len(more.Reads)+len(more.Writes) == 0 {
		return
	}
	if now := time.Now(); now.Sub(s.tails.learned) > relearn {
		earlier, err := s.DB.SingleTasks(ctx, mostEarlier)
		if err != nil {
			s.Fault(fmt.Sprintf("earlier tasks: %v: tasks are ranked without those to come", err))
		}
		s.tails = tails{now, afterKinds(earlier)}
	}
	task.Tail = s.tails.after[kindOf(by.UID, more.Workflow, task.Kind)]
}

// afterKinds returns the longest path below each kind, by mean runtimes of the kinds on it.
func afterKinds(earlier []sqlite.SingleTask) map[string]time.Duration {
	type kind struct {
		sum      time.Duration
		runs     int
		children map[string]bool
	}
	kinds, writers := map[string]*kind{}, map[string]string{} // by user and path
	all := make([]options, len(earlier))
	for i := range earlier {
		t := &earlier[i]
		all[i] = readOptions(t.Options)
		name := kindOf(t.UID, all[i].Workflow, t.Kind)
		k := kinds[name]
		if k == nil {
			k = &kind{children: map[string]bool{}}
			kinds[name] = k
		}
		k.sum, k.runs = k.sum+t.Ran, k.runs+1
		for _, p := range all[i].Writes {
			at := placeOf(t.UID, p)
			if was, written := writers[at]; written && was != name {
				writers[at] = "" // of several kinds: it tells nothing
				continue
			}
			writers[at] = name
		}
	}
	for i := range earlier {
		name := kindOf(earlier[i].UID, all[i].Workflow, earlier[i].Kind)
		for _, p := range all[i].Reads {
			for range deepest {
				if parent := writers[placeOf(earlier[i].UID, p)]; parent != "" && parent != name {
					kinds[parent].children[name] = true
				}
				p = path.Dir(p)
			}
		}
	}
	after := map[string]time.Duration{}
	var visit func(name string) time.Duration
	visit = func(name string) time.Duration {
		if tail, known := after[name]; known {
			return tail
		}
		after[name] = 0 // in a circle of kinds, the first one is not below itself
		longest := time.Duration(0)
		for child := range kinds[name].children {
			k := kinds[child]
			longest = max(longest, k.sum/time.Duration(k.runs)+visit(child))
		}
		after[name] = longest
		return longest
	}
	for name := range kinds {
		visit(name)
	}
	return after
}
