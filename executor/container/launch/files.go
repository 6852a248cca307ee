// Package launch is what the launcher of package launch/first and the task emulator have in common where the latter is
// the first process of a container itself: it claims the attempt and becomes the user of the task. It also has the
// launcher of containers that early versions of gantry made. It is a leaf, and light, because it starts once per task.
package launch

import (
	"os"
	"path/filepath"
	"time"
)

// Files of standard output and error that no task declared: only of these no more than a bound is kept. package first
// knows them, too.
const (
	Stdout = ".command.out"
	Stderr = ".command.err"
)

// Begin is the file, in the working directory, that was the claim up to log format 8: containers that such a gantry
// made have no control directory. ClaimOld makes it.
const Begin = ".command.begin"

// ClaimOld claims an attempt in its working directory. The file's time of modification is when the program began.
func ClaimOld(dir string) error {
	now := time.Now()
	path := filepath.Join(dir, Begin)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	return os.Chtimes(path, now, now) // the kernel's own is that of its last tick
}
