package container

import (
	"errors"
	"fmt"
	"time"

	"gantry/executor/container/stage"
	"gantry/planner"
)

// diskEvery is how often the work directories of running attempts are looked at, if that takes little of it.
const diskEvery = 250 * time.Millisecond

// watchDisk kills attempts whose work directory has grown beyond the limit.
func (r *Runtime) watchDisk() {
	wait := diskEvery
	for stage.Sleep(r.ctx, wait) == nil {
		begun := time.Now()
		for _, a := range r.live() {
			if a.overDisk() {
				r.mu.Lock()
				if a.phase == running && a.why == 0 && !r.closing {
					r.kill(a, planner.OutOfDisk, 0)
				}
				r.mu.Unlock()
			}
		}
		wait = max(diskEvery, 20*time.Since(begun)) // a program may make many files
	}
}

func (r *Runtime) live() (live []*attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		if a.phase == running {
			live = append(live, a)
		}
	}
	return live
}

// overDisk measures the work directory, /tmp and the volumes of the image, and reports whether they were ever beyond
// the limit.
func (a *place) overDisk() bool {
	limit := a.diskLimit()
	if limit <= 0 {
		return false
	}
	bytes, err := stage.DiskUse(stage.MostFiles, a.dir, a.volumes(), a.tmp())
	if errors.Is(err, stage.ErrTooMany) { // files that are not counted may take anything
		bytes = max(bytes, limit+1)
	}
	if err != nil {
		a.r.warn("disk", fmt.Sprintf("disk use of %s: %v", a, err))
	}
	for {
		most := a.disk.Load()
		if bytes <= most || a.disk.CompareAndSwap(most, bytes) {
			return max(bytes, most) > limit
		}
	}
}

// diskLimit is how many bytes these may take: the smaller of the limits of run and task; 0: no limit.
func (a *place) diskLimit() int64 {
	run, task := a.r.cfg.Disk, a.l.Spec.DiskLimit
	if run <= 0 || task > 0 && task < run {
		return task
	}
	return run
}
