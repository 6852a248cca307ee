// Package launch is what the launcher of package launch/first and the task emulator share, where the emulator is the
// first process of a container: it claims the attempt and becomes the user of the task. It is a leaf, and light, because
// it starts once per task.
package launch

// Files of standard output and error that no task declared: only of these no more than a bound is kept. package first
// knows them, too.
const (
	Stdout = ".command.out"
	Stderr = ".command.err"
)
