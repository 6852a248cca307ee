//go:build linux

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/oci/userns"
)

// Containers of users other than root. Gantry begins again in a user namespace, where it is root and the user keeps his
// ID, and in a control group that the user's service manager delegates. All gantries of a user share that group, so
// that one finds the containers of another that was killed: it exists as long as a process is in it.

// scope is the unit with the delegated control group.
const scope = "gantry.scope"

// Enter begins this process again with the rights that containers take, if its user is not root and this host lets it;
// then it does not return. Where it cannot, Engine.Host names the missing rights.
func Enter() error {
	if os.Geteuid() == 0 || userns.Inside() {
		return nil
	}
	tree, err := cgroup.Open(cgroup.Root, false)
	if err != nil || len(rootless(tree)) > 0 {
		return nil
	}
	images, err := image.DefaultDir()
	if err != nil {
		return err
	}
	uids, _ := subordinate("/etc/subuid")
	gids, _ := subordinate("/etc/subgid")
	groups, err := delegated()
	if err != nil {
		return fmt.Errorf("control groups of this user: %w", err)
	}
	return userns.Begin(uids, gids, groups, image.DirEnv+"="+images)
}

// Usable says why this process cannot make containers, also after Enter; nil if it can.
func Usable(ctx context.Context) error {
	e, err := Open(Config{})
	if err != nil {
		return err
	}
	defer e.Close()
	if os.Geteuid() == 0 || len(rootless(e.tree)) > 0 {
		_, err = e.Host(ctx)
	}
	return err
}

// rootless lists the needs of containers of a user other than root that this host does not meet.
func rootless(t *cgroup.Tree) (lacking []string) {
	if t.Mode() != cgroup.Unified {
		lacking = append(lacking, "cgroup v2 (it has "+t.Mode().String()+")")
	} else if c := undelegated(t); len(c) > 0 {
		lacking = append(lacking, "the controllers "+strings.Join(c, ", ")+", delegated to this user (Delegate=cpu "+
			"io memory pids below [Service] in /etc/systemd/system/user@.service.d/delegate.conf)")
	}
	for _, limit := range []struct{ path, refuses string }{{"/proc/sys/user/max_user_namespaces", "0"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"}} {
		if text, err := os.ReadFile(limit.path); err == nil && strings.TrimSpace(string(text)) == limit.refuses {
			lacking = append(lacking, "user namespaces ("+limit.path+" is "+limit.refuses+")")
		}
	}
	for _, m := range []struct{ program, ranges string }{{"newuidmap", "/etc/subuid"}, {"newgidmap", "/etc/subgid"}} {
		if _, err := exec.LookPath(m.program); err != nil {
			lacking = append(lacking, m.program+" (apt install uidmap)")
		}
		if _, ok := subordinate(m.ranges); !ok {
			lacking = append(lacking, fmt.Sprintf("a range of %d IDs for this user in %s", userns.Least, m.ranges))
		}
	}
	if _, err := exec.LookPath("busctl"); err != nil {
		lacking = append(lacking, "busctl (apt install systemd)")
	}
	if dir := runtimeDir(); unix.Access(filepath.Join(dir, "bus"), unix.R_OK|unix.W_OK) != nil {
		lacking = append(lacking, "a service manager of this user, at "+dir+"/bus (apt install dbus-user-session; "+
			"loginctl enable-linger)")
	}
	return lacking
}

// runtimeDir is the directory of the user's services.
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return "/run/user/" + strconv.Itoa(os.Getuid())
}

// subordinate returns the first range for this user in a file of subordinate IDs that is large enough.
func subordinate(path string) (userns.Range, bool) {
	text, _ := os.ReadFile(path)
	id := strconv.Itoa(os.Getuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] != name && fields[0] != id {
			continue
		}
		first, err := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err == nil && err2 == nil && first > 0 && count >= userns.Least {
			return userns.Range{First: first, Count: count}, true
		}
	}
	return userns.Range{}, false
}

// manager is the control group of the user's own service manager.
func manager() string {
	return fmt.Sprintf("user.slice/user-%d.slice/user@%d.service", os.Getuid(), os.Getuid())
}

// undelegated lists the controllers that the user's own service manager may not use.
func undelegated(t *cgroup.Tree) (lacking []string) {
	text, _ := os.ReadFile(filepath.Join(t.Dir("memory", manager()), "cgroup.controllers"))
	for _, c := range []string{"cpu", "memory", "pids", "io"} {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+c+" ") {
			lacking = append(lacking, c)
		}
	}
	return lacking
}

// delegated puts this process below the delegated control group, which it makes if need be, and returns its directory.
func delegated() (string, error) {
	dir := filepath.Join(cgroup.Root, manager(), "app.slice", scope)
	own := "gantry-" + strconv.Itoa(os.Getpid())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pid := strconv.Itoa(os.Getpid())
	var failed error
	for range 20 { // the scope may go, or come, at any moment
		err := os.Mkdir(filepath.Join(dir, own), 0o755)
		if err == nil || errors.Is(err, fs.ErrExist) {
			if err = call(ctx, "AttachProcessesToUnit", "ssau", scope, "/"+own, "1", pid); err == nil {
				err = within(ctx, scope+"/"+own)
			}
		}
		if err == nil {
			left, _ := filepath.Glob(filepath.Join(dir, "gantry-*")) // groups of gantries that have ended
			for _, group := range left {
				_ = os.Remove(group) // but for those that processes are in
			}
			return dir, nil
		}
		failed = err
		err = call(ctx, "StartTransientUnit", "ssa(sv)a(sa(sv))", scope, "fail", "4", "Description", "s",
			"containers of gantry", "Slice", "s", "app.slice", "Delegate", "b", "true", "PIDs", "au", "1", pid, "0")
		if err == nil {
			err = within(ctx, scope)
		} else { // another gantry starts it now, or systemd is about to remove it
			time.Sleep(100 * time.Millisecond)
		}
		failed = errors.Join(failed, err)
	}
	return "", failed
}

// call has the user's service manager do something.
func call(ctx context.Context, method string, args ...string) error {
	c := exec.CommandContext(ctx, "busctl", append([]string{"--user", "--quiet", "call", "org.freedesktop.systemd1",
		"/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", method}, args...)...)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtimeDir())
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s of systemd --user: %w: %s", method, err, bytes.TrimSpace(out))
	}
	return nil
}

// within waits until this process is in a control group.
func within(ctx context.Context, group string) error {
	for {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return err
		}
		if strings.HasSuffix(strings.TrimSpace(string(text)), "/"+group) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd --user did not move this process to %s: it is in %s", group,
				bytes.TrimSpace(text))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
