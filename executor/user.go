package executor

// User is whose rights a workflow reads, runs and writes with, as the kernel knew the process that handed it in.
type User struct {
	UID, GID int
	Groups   []int // supplementary ones; nil: those that the user database has
}
