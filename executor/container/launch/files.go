// Package launch claims an attempt and becomes the user of its task, where the task emulator is the first process of a
// container; for other programs package launch/first does that. It is a leaf, and light, because it starts once per
// task.
package launch

// Files of standard output and error that no task declared: only of these no more than a bound is kept. package first
// knows them, too.
const (
	Stdout = ".command.out"
	Stderr = ".command.err"
)
