package cgroup

import "golang.org/x/sys/unix"

// LoseInotify has the watcher be as one that was made when other programs had all inotify instances.
func (w *Watcher) LoseInotify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	unix.Close(w.inotify)
	w.inotify = -1
}
