package server

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"gantry/cmd/api"
	"gantry/sqlite"
)

const (
	mostEarlier = 2000            // single tasks of a user that tails are learned from: the latest
	mostOptions = 20 << 10        // bytes of the options of one: those with thousands of dependencies have more
	relearn     = 5 * time.Second // after which they are learned again
	deepest     = 6               // directories above a path that are looked for among those that tasks write
)

// tails are learned from earlier single tasks: how long the tasks take that come after one of a kind. Workflow systems
// hand in a task once it is ready, so its ancestors are known, and none of its descendants. But the next run of a
// pipeline has the kinds of tasks of the last one: their graph, with mean runtimes, has their upward ranks.
type tails struct {
	learned time.Time
	after   map[kind]time.Duration // never changed
}

// kind is a kind of tasks of a user's workflow.
type kind struct{ workflow, name string }

// tailsFor returns the tails of the kinds of a user's tasks, if any of these submissions needs one. They are read
// without a lock: the submissions of others do not wait. A fault of the log is no reason to refuse a task: it is ranked
// by itself then.
func (s *Server) tailsFor(ctx context.Context, items []handed, by Peer) map[kind]time.Duration {
	if !slices.ContainsFunc(items, func(h handed) bool { return h.wantsTail() }) {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	known := s.tails[by.UID]
	fresh := now.Sub(known.learned) <= relearn
	if !fresh {
		s.tails[by.UID] = tails{now, known.after} // requests meanwhile do not read them, too
	}
	s.mu.Unlock()
	if fresh {
		return known.after
	}
	tasks, err := EarlierTasks(ctx, s.DB, by.UID, mostEarlier, mostOptions)
	if err != nil {
		if ctx.Err() == nil {
			s.Fault(fmt.Sprintf("earlier tasks: %v: tasks are ranked without those to come", err))
		}
		return known.after
	}
	after := afterKinds(tasks)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tails[by.UID] = tails{now, after}
	return after
}

// EarlierTask is a single task of any run that ended well.
type EarlierTask struct {
	Options string
	Kind    string
	Ran     time.Duration
}

// EarlierTasks returns the latest of a user in all runs, at most that many, the newest first, without those whose
// options have more bytes.
func EarlierTasks(ctx context.Context, db *sqlite.DB, uid, most, bytes int) ([]EarlierTask, error) {
	return sqlite.RowsOf[EarlierTask](ctx, db, `SELECT s.options, t.kind, a.ran_ns FROM submitted s
		JOIN tasks t ON t.run = s.run AND t.task = s.task JOIN attempts a ON a.run = t.run AND a.attempt = t.attempt
		WHERE s.uid = ? AND s.kind = 'task' AND a.outcome = 'ok' AND octet_length(s.options) <= ?
		ORDER BY s.id DESC LIMIT ?`, uid, bytes, most)
}

// wantsTail reports whether it is a single task whose tail can be known and was not given by its user.
func (h *handed) wantsTail() bool {
	return h.single && h.sub.Workflow.Tasks[0].Tail == 0 && len(h.more.Reads)+len(h.more.Writes) > 0
}

// checkPaths refuses more or longer paths than gantry's own clients send.
func checkPaths(paths []string) error {
	if len(paths) > api.MaxPaths {
		return invalidf("a task names at most %d paths that it reads or writes", api.MaxPaths)
	}
	for _, p := range paths {
		if !path.IsAbs(p) || len(p) > api.LongestPath || path.Clean(p) != p {
			return invalidf("a task names a path that it reads or writes which is not absolute, or has more than %d "+
				"bytes", api.LongestPath)
		}
	}
	return nil
}

// afterKinds returns the longest path below each kind, by mean runtimes of the kinds on it.
func afterKinds(earlier []EarlierTask) map[kind]time.Duration {
	type stats struct {
		sum      time.Duration
		runs     int
		children map[kind]bool
	}
	kinds, writers := map[kind]*stats{}, map[string]kind{} // by path
	all := make([]options, len(earlier))
	for i := range earlier {
		all[i] = readOptions(earlier[i].Options)
		own := kind{all[i].Workflow, earlier[i].Kind}
		k := kinds[own]
		if k == nil {
			k = &stats{children: map[kind]bool{}}
			kinds[own] = k
		}
		k.sum, k.runs = k.sum+earlier[i].Ran, k.runs+1
		for _, p := range all[i].Writes {
			if was, written := writers[p]; written && was != own {
				writers[p] = kind{} // of several kinds: it tells nothing
				continue
			}
			writers[p] = own
		}
	}
	for i := range earlier {
		own := kind{all[i].Workflow, earlier[i].Kind}
		for _, p := range all[i].Reads {
			for range deepest {
				if parent := kinds[writers[p]]; parent != nil && writers[p] != own {
					parent.children[own] = true
				}
				p = path.Dir(p)
			}
		}
	}
	after := map[kind]time.Duration{}
	var visit func(of kind) time.Duration
	visit = func(of kind) time.Duration {
		if tail, known := after[of]; known {
			return tail
		}
		after[of] = 0 // in a circle of kinds, the first one is not below itself
		longest := time.Duration(0)
		for child := range kinds[of].children {
			k := kinds[child]
			longest = max(longest, k.sum/time.Duration(k.runs)+visit(child))
		}
		after[of] = longest
		return longest
	}
	for of := range kinds {
		visit(of)
	}
	return after
}
