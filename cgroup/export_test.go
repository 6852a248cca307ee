package cgroup

import "golang.org/x/sys/unix"

// LoseInotify has the watcher be as one that was made when other programs had all inotify instances.
func (w *Watcher) LoseInotify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	unix.Close(w.inotify)
	w.inotify = -1
}

// Last returns the latest reading of a group that is watched.
func (w *Watcher) Last(key int64) (c Counters) {
	w.of(key, func(e *watch) { c = e.got })
	return c
}

// Limits reads back the limits of a group, as the watcher does.
func (t *Tree) Limits(group string, dev Device) Limits {
	g := t.files(group)
	defer g.close()
	return g.limits(dev)
}
