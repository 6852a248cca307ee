package session

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"gantry/sqlite"
)

// atEnd runs the command of --on-end. Its output goes to standard error, as standard output has the summary only.
func (s *Session) atEnd(state sqlite.State, code int) {
	s.telemetry()
	if s.Set.OnEnd == "" || s.DB == nil {
		return
	}
	tasks, failed := s.counts()
	c := exec.Command("/bin/sh", "-c", s.Set.OnEnd)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	c.Env = append(os.Environ(), "GANTRY_RUN="+s.Name, "GANTRY_STATE="+string(state),
		"GANTRY_EXIT_CODE="+strconv.Itoa(code), "GANTRY_TASKS="+strconv.Itoa(tasks),
		"GANTRY_FAILED="+strconv.Itoa(failed), "GANTRY_DIR="+s.Home, "GANTRY_RUN_DIR="+s.Dir, "GANTRY_LOG="+s.DB.Path(),
		"GANTRY_RESULTS="+filepath.Join(s.Dir, "results"))
	if err := c.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "gantry: --on-end %s: %v\n", s.Set.OnEnd, err)
	}
}
