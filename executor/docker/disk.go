package docker

import (
	"fmt"
	"time"

	"gantry/executor/stage"
	"gantry/planner"
)

// diskEvery is how often the work directories of running attempts are looked at, if that takes little of it.
const diskEvery = 250 * time.Millisecond

// watchDisk kills attempts whose work directory has grown beyond the limit.
func (r *Runtime) watchDisk() {
	defer r.work.Done()
	wait := diskEvery
	for stage.Sleep(r.ctx, wait) == nil {
		r.mu.Lock()
		var live []*attempt
		for _, a := range r.attempts {
			if a.phase == running && a.why == 0 {
				live = append(live, a)
			}
		}
		r.mu.Unlock()
		begun := time.Now()
		for _, a := range live {
			if a.overDisk() {
				r.mu.Lock()
				if a.phase == running && !r.closing {
					r.kill(a, planner.OutOfDisk, 0)
				}
				r.mu.Unlock()
			}
		}
		wait = max(diskEvery, 20*time.Since(begun)) // a program may make many files
	}
}

// overDisk measures the work directory and reports whether it was ever beyond the limit.
func (a *attempt) overDisk() bool {
	if a.r.cfg.Disk <= 0 {
		return false
	}
	bytes, err := stage.DiskUse(a.dir)
	if err != nil {
		a.r.warn("disk", fmt.Sprintf("disk use of %s: %v", a, err))
	}
	for {
		most := a.disk.Load()
		if bytes <= most || a.disk.CompareAndSwap(most, bytes) {
			return max(bytes, most) > a.r.cfg.Disk
		}
	}
}
