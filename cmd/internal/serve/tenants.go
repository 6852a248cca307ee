package serve

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"gantry/cmd/internal/server"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner"
	"gantry/planner/unit"
	"gantry/sqlite"
)

// limitCores has the planner keep the limits of cores.
func limitCores(t server.Limits, pl *planner.Planner, adm *executor.Admitter) {
	for _, l := range t {
		if l.Cores > 0 {
			pl.LimitTenants(func(m planner.TenantID) int64 { return t.Of(adm.TenantName(m)).Cores })
			return
		}
	}
}

// runnable refuses a workflow with a task that needs more cores than its tenant may hold.
func runnable(t server.Limits, adm *executor.Admission) error {
	limit := t.Of(adm.Submission.Tenant).Cores
	for i := range adm.Arrived.Tasks {
		if need := adm.Arrived.Tasks[i].Need[unit.CPU]; limit > 0 && need > limit {
			return fmt.Errorf("workflow %s: task %s needs %s, and the limit of tenant %s is %s",
				adm.Submission.Name, adm.Tasks[i].Name, term.Cores(need), adm.Submission.Tenant, term.Cores(limit))
		}
	}
	return nil
}

// diskUse measures the files of tenants in the directory of a run.
type diskUse struct {
	db   *sqlite.DB
	run  string
	dir  string
	mu   sync.Mutex
	last map[string]measured // by tenant
}

type measured struct {
	at    time.Time
	took  time.Duration
	bytes int64
}

// After a measurement the next one waits this many times as long as it took, so that measuring takes a twentieth of
// the time at most.
const restOfUse = 20

// of is how many bytes the files of a tenant take.
func (d *diskUse) of(ctx context.Context, tenant string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.last[tenant]
	if ok && time.Since(was.at) < restOfUse*was.took {
		return was.bytes, nil
	}
	began := time.Now()
	names, err := d.db.WorkflowsOf(ctx, d.run, tenant)
	if err != nil {
		return 0, err
	}
	nodes, _ := os.ReadDir(filepath.Join(d.dir, "nodes")) // it may not be there yet
	seen := map[[2]uint64]bool{}
	sum := int64(0)
	for _, name := range names {
		name = executor.EscapeName(name)
		dirs := []string{filepath.Join(d.dir, "results", name)}
		for _, n := range nodes {
			dirs = append(dirs, filepath.Join(d.dir, "nodes", n.Name(), name))
		}
		for _, dir := range dirs {
			sum += spaceOf(dir, seen)
		}
	}
	if d.last == nil {
		d.last = map[string]measured{}
	}
	d.last[tenant] = measured{time.Now(), time.Since(began), sum}
	return sum, nil
}

// spaceOf is the space that a directory takes. A file with several names counts once, and a file that cannot be read,
// or vanishes meanwhile, not at all.
func spaceOf(dir string, seen map[[2]uint64]bool) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if id := [2]uint64{uint64(st.Dev), st.Ino}; ok && !seen[id] {
			seen[id] = true
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum
}
