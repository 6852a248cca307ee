package executor

// User is the user whose rights a workflow has, as the kernel knew the process that handed it in.
type User struct {
	UID, GID int
	Groups   []int // supplementary ones; nil: those that the user database has
}
