//go:build linux

package oci

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gantry/cgroup/thread"
	"gantry/executor/container/oci/userns"
)

// inside runs functions on threads of their own, each with a mount namespace of its own, and programs that they start
// get both. Nobody else sees their mounts, which are gone with the threads: gantry may be killed at any time.
type inside struct {
	// unified is where a hybrid host has the empty hierarchy of cgroup v2, which is hidden: crun would make directories
	// there that nobody removes. "" on others.
	unified string
}

// usualNice is the nice value of this process before it raises its own priority, and at least 0: programs get no
// priority over others.
var usualNice = func() int {
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return max(20-nice, 0) // the system call returns 40 to 1
}()

// usual gives this thread the priority, the processors and the timers that programs are to have.
func usual() {
	_ = unix.SchedSetaffinity(0, &everyCPU)
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), usualNice)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0)
}

// do runs f on a thread that nothing else uses.
func (x inside) do(f func() error) error {
	done := make(chan error, 1)
	thread.Go(func() {
		usual()
		err := x.enter()
		if err == nil {
			err = f()
		}
		done <- err
	})
	return <-done
}

const usualSlack = 50_000 // nanoseconds, of timers

func (x inside) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	unix.Umask(0o022) // of this thread: it goes with the namespace
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if x.unified == "" {
		return nil
	}
	err := unix.Mount("tmpfs", x.unified, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err != nil {
		return fmt.Errorf("mount namespace: hide %s: %w", x.unified, err)
	}
	return nil
}

// mountRoot mounts the root of a container at dir: the layers, and above them a file system in memory, with the cover.
// The layers are as overlay takes them, below a directory; "" for none.
func mountRoot(dir, layers, lower string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	var err error
	made := []string{"/upper", "/work"}
	if lower == "" {
		lower, made = escape(dir)+"/none", append(made, "/none")
	}
	for _, sub := range made {
		if err == nil {
			err = unix.Mkdir(dir+sub, 0o755)
		}
	}
	if err == nil {
		options := "lowerdir=" + lower + ",upperdir=" + escape(dir) + "/upper,workdir=" + escape(dir) + "/work"
		if userns.Inside() { // where nobody can set the attributes that overlayfs keeps otherwise
			options = "userxattr," + options
		}
		if layers != "" { // this thread has a working directory of its own
			err = unix.Chdir(layers)
		}
		if err == nil {
			err = unix.Mount("overlay", dir, "overlay", 0, options)
		}
		_ = unix.Chdir("/")
	}
	if err != nil {
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		return fmt.Errorf("mount the overlay of layers at %s: %w", dir, err)
	}
	if err := cover(dir); err != nil {
		unmountRoot(dir)
		return fmt.Errorf("mount points of a container: %w", err)
	}
	return nil
}

func unmountRoot(dir string) {
	_ = unix.Unmount(dir, unix.MNT_DETACH) // the overlay
	_ = unix.Unmount(dir, unix.MNT_DETACH) // the file system in memory, which the overlay of a container still holds
}

// escape makes a path one word of the options of overlay.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
