package session

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"gantry/planner"
	"gantry/sqlite"
)

// atEnd runs the command of --on-end. Its output goes to standard error, as standard output has the summary only.
func (s *Session) atEnd(state sqlite.State, code int) {
	if s.set.OnEnd == "" || s.db == nil {
		return
	}
	v := s.engine.Planner.View()
	tasks, failed := 0, 0
	for w := range v.Workflows() {
		if _, continued := v.Continues(planner.WorkflowID(w)); continued {
			continue
		}
		for range v.All(planner.WorkflowID(w)) {
			tasks++
		}
		_, n := v.Progress(planner.WorkflowID(w))
		failed += n
	}
	c := exec.Command("/bin/sh", "-c", s.set.OnEnd)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	c.Env = append(os.Environ(), "GANTRY_RUN="+s.name, "GANTRY_STATE="+string(state),
		"GANTRY_EXIT_CODE="+strconv.Itoa(code), "GANTRY_TASKS="+strconv.Itoa(tasks),
		"GANTRY_FAILED="+strconv.Itoa(failed), "GANTRY_DIR="+s.home, "GANTRY_RUN_DIR="+s.dir, "GANTRY_LOG="+s.db.Path(),
		"GANTRY_RESULTS="+filepath.Join(s.dir, "results"))
	if err := c.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "gantry: --on-end %s: %v\n", s.set.OnEnd, err)
	}
}
