package docker_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gantry/planner"
)

// podman starts Podman's service with a storage of its own, in which the image of the tests is.
func podman(t *testing.T) (host string) {
	t.Helper()
	program, err := exec.LookPath("podman")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs Podman (apt-get install podman), and root")
	}
	dir, err := os.MkdirTemp("", "podman") // names of sockets are short
	must(t, err)
	own := []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir",
		filepath.Join(dir, "tmp"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend",
		"file"}
	conf := filepath.Join(dir, "containers.conf") // else Podman raises its own limits, which takes CAP_SYS_RESOURCE
	must(t, os.WriteFile(conf, []byte("[containers]\ndefault_ulimits = [\"nofile=9999:9999\", "+
		"\"nproc=9999:9999\"]\n"), 0o644))
	command := func(program string, args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir, c.Env = dir, append(os.Environ(), "CONTAINERS_CONF="+conf) // conmon writes to its directory
		return c
	}
	do := func(program string, args ...string) {
		t.Helper()
		if out, err := command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s", program, args, err, out)
		}
	}
	archive, socket := filepath.Join(dir, "image.tar"), filepath.Join(dir, "s")
	do("docker", "save", "-o", archive, busybox)
	do(program, append(own, "load", "-q", "-i", archive)...)
	service := command(program, append(own, "system", "service", "--time=0", "unix://"+socket)...)
	must(t, service.Start())
	t.Cleanup(func() {
		do(program, append(own, "rm", "--all", "--force", "--time=0")...)
		_ = service.Process.Kill()
		_ = service.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, func() bool {
		c, err := net.DialTimeout("unix", socket, time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "unix://" + socket
}

// Podman's socket speaks the language of the Docker Engine: its containers have the same limits, and no network.
func TestPodman(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, podman(t), nil)
	x := r.exit(r.launch(r.sh("tail -n +3 /proc/net/dev >net; id -u >who; touch /x && exit 1; echo err >&2",
		r.file("net"), r.file("who")), nil))
	r.wants(x, planner.OK)
	if net, who := r.read(r.node(0, "net")), r.read(r.node(0, "who")); strings.Count(net, ":") != 1 ||
		!strings.Contains(net, "lo:") || strings.TrimSpace(who) != "65534" {
		t.Errorf("the program has the interfaces\n%sand is user %s", net, who)
	}
	r.wants(r.exit(r.launch(r.sh("exit 7"), nil)), planner.ExitCode, "exit code 7")
	r.wants(r.exit(r.launch(r.sh("dd if=/dev/zero of=/dev/null bs=200M count=1"), nil)), planner.OutOfMemory)
	r.wants(r.exit(r.launch(r.emulated(), nil)), planner.OK)
	a := r.launch(r.sh("sleep 300"), nil)
	r.started(a)
	r.must(r.Kill(r.ctx, a, planner.Preempted, 0))
	r.wants(r.exit(a), planner.Preempted)
	x = r.exit(r.launch(r.sh("sleep 2"), nil))
	r.wants(x, planner.OK)
	if u := x.Usage; u.Applied.Memory != 64<<20 || u.Applied.PIDs == 0 || u.PeakMemory == 0 ||
		u.CPUUser+u.CPUSystem == 0 {
		t.Errorf("its control group is not found: %+v", u)
	}
	l := r.launched(r.sh("sleep 3"))
	s := r.successor(l)
	s.wants(s.exit(l.Attempt), planner.OK)
}
