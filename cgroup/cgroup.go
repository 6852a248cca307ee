// Package cgroup creates control groups with limits and reads the kernel's counters, on cgroup v1 (legacy and hybrid)
// and v2, under Docker's cgroupfs and systemd drivers. Limits are written through containerd/cgroups. It is a leaf: it
// knows nothing of Docker's API or of planning, and the root of the tree is injected, so that tests can fake one.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Root is where Linux systems mount control groups.
const Root = "/sys/fs/cgroup"

// ErrUnavailable says that there are no usable control groups under the root.
var ErrUnavailable = errors.New("no control groups")

// Mode is the layout of the control group tree.
type Mode uint8

const (
	Unavailable Mode = iota
	Legacy           // v1: one hierarchy per controller
	Hybrid           // v1 controllers, and an empty v2 hierarchy beside them
	Unified          // v2
)

func (m Mode) String() string {
	return [...]string{"unavailable", "v1", "v1 (hybrid)", "v2"}[m]
}

// Tree is the control group tree of the host. Groups are named by their path relative to a hierarchy's root, as in
// "gantry/run/node".
type Tree struct {
	root    string
	mode    Mode
	systemd bool
	tops    []string // the top directory of every hierarchy, links resolved, each once
}

// Open looks at the tree below root. Systemd says that Docker uses the systemd driver, so that groups are slices.
func Open(root string, systemd bool) (*Tree, error) {
	t := &Tree{root: filepath.Clean(root), systemd: systemd}
	exists := func(p ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{root}, p...)...))
		return err == nil
	}
	switch {
	case exists("cgroup.controllers"):
		t.mode, t.tops = Unified, []string{t.root}
		return t, nil
	case !exists("memory") || !exists("cpu") || !exists("cpuacct"):
		t.mode = Legacy
		names, remedy := t.Lacking("cpu", "cpuacct", "memory")
		return nil, fmt.Errorf("%s: %w: neither a v2 tree nor, of v1, %s is mounted there (%s)", root, ErrUnavailable,
			strings.Join(names, ", "), remedy)
	case exists("unified", "cgroup.controllers"):
		t.mode = Hybrid
	default:
		t.mode = Legacy
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	seen := map[string]bool{}
	for _, e := range entries { // cpu and cpuacct may be links to one hierarchy
		top, err := filepath.EvalSymlinks(filepath.Join(root, e.Name()))
		if err != nil || seen[top] {
			continue
		}
		if st, err := os.Stat(top); err == nil && st.IsDir() {
			seen[top] = true
			t.tops = append(t.tops, top)
		}
	}
	return t, nil
}

// Mode returns the layout.
func (t *Tree) Mode() Mode { return t.mode }

// Systemd reports whether groups are slices.
func (t *Tree) Systemd() bool { return t.systemd }

// Has reports whether the host has the controller: cpu, memory, blkio (io on v2) or pids.
func (t *Tree) Has(controller string) bool {
	if t.mode != Unified {
		_, err := os.Stat(filepath.Join(t.root, controller))
		return err == nil
	}
	if controller == "blkio" {
		controller = "io"
	}
	b, _ := os.ReadFile(filepath.Join(t.root, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(b)), controller)
}

// Lacking lists those of the controllers that the host does not have, and says how it comes to have them.
func (t *Tree) Lacking(controllers ...string) (names []string, remedy string) {
	names = slices.DeleteFunc(slices.Clone(controllers), t.Has)
	known, _ := os.ReadFile("/proc/cgroups")
	for _, name := range names {
		way := "this control group has no controller " + name + ": hand it down from the one above " +
			"(cgroup.subtree_control, Delegate= of a unit)"
		if t.mode != Unified {
			way = "the kernel is built without the controller " + name
		}
		for line := range strings.Lines(string(known)) { // recent kernels list controllers of v1 alone
			switch f := strings.Fields(line); {
			case len(f) < 4 || f[0] != name:
			case f[3] == "0":
				way = "the kernel has the controller " + name + " switched off: boot with cgroup_enable=" + name
			case t.mode != Unified:
				way = fmt.Sprintf("mount -t cgroup -o %s cgroup %s", name, filepath.Join(t.root, name))
			}
		}
		remedy = strings.TrimPrefix(remedy+"; "+way, "; ")
	}
	return names, remedy
}

// Group returns the path of the group that the names lead to. Names must have been escaped by Name.
func (t *Tree) Group(names ...string) string {
	if !t.systemd {
		return filepath.Join(names...)
	}
	var p []string
	for i := range names {
		p = append(p, strings.Join(names[:i+1], "-")+".slice")
	}
	return filepath.Join(p...)
}

// Parent returns the value of Docker's --cgroup-parent for a group.
func (t *Tree) Parent(group string) string {
	if t.systemd {
		return filepath.Base(group)
	}
	return "/" + group
}

// Podman is before the IDs of Podman's containers in the names of their groups.
const Podman = "libpod-"

// Container returns the group that the Docker Engine makes for a container below a parent group. With the prefix Podman
// in its ID it is the group that Podman makes.
func (t *Tree) Container(parent, id string) string {
	switch {
	case t.systemd && strings.HasPrefix(id, Podman):
		return filepath.Join(parent, id+".scope")
	case t.systemd:
		return filepath.Join(parent, "docker-"+id+".scope")
	}
	return filepath.Join(parent, id)
}

// DockerParent is the group below which Docker puts containers by default.
func (t *Tree) DockerParent() string {
	if t.systemd {
		return "system.slice"
	}
	return "docker"
}

// Name escapes s for use as a name in Group: lower-case letters, digits, dots and, but for the systemd driver where
// they mean nesting, dashes stay.
func (t *Tree) Name(s string) string {
	var b strings.Builder
	for _, r := range []byte(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.' && b.Len() > 0, r == '-' && !t.systemd:
			b.WriteByte(r)
		case r == '-':
			b.WriteByte('_')
		default:
			fmt.Fprintf(&b, "_%02x", r)
		}
	}
	return b.String()
}

// Dir returns the directory of a group for a controller; v1 names of controllers are taken in every mode.
func (t *Tree) Dir(controller, group string) string {
	if t.mode == Unified {
		return filepath.Join(t.root, group)
	}
	return filepath.Join(t.root, controller, group)
}

// watched is the hierarchy whose directories and processes the watcher follows.
func (t *Tree) watched(group string) string { return t.Dir("blkio", group) }

// Device is a block device as the kernel numbers it.
type Device struct {
	Major, Minor uint32
	Path         string // such as /dev/vda
}

func (d Device) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// Limits are the limits of a group. Zero fields are no limit.
type Limits struct {
	CPUQuota   time.Duration // CPU time per CPUPeriod
	CPUPeriod  time.Duration
	Memory     int64 // bytes
	MemorySwap int64 // bytes, memory and swap together; ignored where the kernel does not account for swap
	PIDs       int64
	ReadBps    int64 // on Device, bytes per second
	WriteBps   int64
	ReadIOPS   int64 // on Device, operations per second
	WriteIOPS  int64
	Device     Device
}

// SwapAccounted reports whether the kernel can limit swap.
func (t *Tree) SwapAccounted() bool {
	name := "memory.memsw.limit_in_bytes"
	if t.mode == Unified { // the root group has no limits: look at any child
		m, _ := filepath.Glob(filepath.Join(t.root, "*", "memory.swap.max"))
		return len(m) > 0
	}
	_, err := os.Stat(filepath.Join(t.Dir("memory", ""), name))
	return err == nil
}

// Create makes a group with its ancestors and gives it limits; a group that exists gets the limits again. Meanwhile
// others may remove ancestors that are still empty.
func (t *Tree) Create(group string, l Limits) error {
	err := t.create(group, l)
	for n := 0; n < createTries && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)); n++ {
		err = t.create(group, l)
	}
	if err != nil {
		return fmt.Errorf("control group %s: %w", group, err)
	}
	return nil
}

// createTries is how often a group is made again that was gone before it had its limits.
const createTries = 20

// Make makes a group without limits below one that Create made, as cheaply as can be: only where the watcher looks.
// Docker makes the rest of it when it makes a container below it.
func (t *Tree) Make(group string) error {
	if t.systemd && t.mode == Unified {
		return t.Create(group, Limits{})
	}
	if err := os.Mkdir(t.watched(group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("control group: %w", err)
	}
	return nil
}

// Empty reports whether no process is in a group or below it.
func (t *Tree) Empty(group string) bool { return len(t.processes(group)) == 0 }

// processes lists the processes in a group and below it, in any hierarchy.
func (t *Tree) processes(group string) map[int]bool {
	pids := map[int]bool{}
	for _, top := range t.tops {
		filepath.WalkDir(filepath.Join(top, group), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "cgroup.procs" {
				b, _ := os.ReadFile(p)
				for _, f := range strings.Fields(string(b)) {
					if pid, err := strconv.Atoi(f); err == nil {
						pids[pid] = true // 0 for one that cannot be seen from here
					}
				}
			}
			return nil
		})
	}
	return pids
}

// Children lists the groups directly below a group, in any hierarchy.
func (t *Tree) Children(group string) []string {
	seen := map[string]bool{}
	var names []string
	for _, top := range t.tops {
		entries, _ := os.ReadDir(filepath.Join(top, group))
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] {
				seen[e.Name()] = true
				names = append(names, e.Name())
			}
		}
	}
	sort.Strings(names)
	return names
}

// Remove deletes a group and all below it from every hierarchy, since Docker makes a parent group in all of them. A
// group that is not there is no error; one that still has processes is, after a moment's patience with processes that
// are dying.
func (t *Tree) Remove(group string) error {
	if group = filepath.Clean(group); group == "." || group == "/" || strings.HasPrefix(group, "..") {
		return fmt.Errorf("control group %q: refusing to remove", group)
	}
	if t.systemd && t.mode == Unified {
		forget(group) // a slice that systemd does not know is left to rmdir
	}
	var errs []error
	for _, top := range t.tops {
		if err := rmdir(filepath.Join(top, group)); err != nil {
			errs = append(errs, fmt.Errorf("control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// RemoveEmpty deletes a group if it is empty in all hierarchies: one that another process makes below it meanwhile
// stays. Where another run has a group in one of them, an OCI runtime may be making those of the others.
func (t *Tree) RemoveEmpty(group string) {
	if len(t.Children(group)) > 0 {
		return
	}
	for _, top := range t.tops {
		if err := syscall.Rmdir(filepath.Join(top, group)); err != nil && err != syscall.ENOENT {
			return
		}
	}
	if t.systemd && t.mode == Unified { // it is to forget the slice
		forget(group)
	}
}

// Clear removes a group, after killing its processes. It looks for processes only where the group does not go at once.
func (t *Tree) Clear(group string) error {
	gone := !t.systemd
	for _, top := range t.tops {
		err := syscall.Rmdir(filepath.Join(top, group))
		gone = gone && (err == nil || err == syscall.ENOENT)
	}
	if gone {
		return nil
	}
	t.Kill(group)
	return t.Remove(group)
}

// rmdir removes a directory of groups, deepest first. A group's files are no files: they go with it.
func rmdir(dir string) error {
	delay := time.Millisecond
	for {
		err := syscall.Rmdir(dir)
		if err == nil || err == syscall.ENOENT {
			return nil
		}
		if err != syscall.EBUSY && err != syscall.ENOTEMPTY {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				if err := rmdir(filepath.Join(dir, e.Name())); err != nil {
					return err
				}
			}
		}
		if delay > 200*time.Millisecond {
			if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
				return &os.PathError{Op: "rmdir", Path: dir, Err: err}
			}
			return nil
		}
		time.Sleep(delay)
		delay *= 2
	}
}
