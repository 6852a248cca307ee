package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/planner/seed/seedtest"
)

// under runs gantry below programs that take rights away, such as setpriv, and returns its exit code and what it said.
func under(t *testing.T, gantry string, programs []string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs[0], append(append(programs[1:], gantry), args...)...)
	said, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(said)
}

// takenAway is the command that starts a program without capabilities of root.
func takenAway(names ...string) []string {
	set := "-" + strings.Join(names, ",-")
	return []string{"setpriv", "--bounding-set", set, "--inh-caps", set, "--"}
}

// Containers without a daemon run without any capability that they do not take, and with whatever limits of processes:
// with all of these taken away, and with each alone. Without one that they take, gantry names it before it makes a
// container, and doctor does.
func TestRootWithoutACapability(t *testing.T) {
	needsOCI(t)
	all, err := exec.Command("setpriv", "--list-caps").Output()
	if err != nil {
		t.Skipf("needs setpriv: %v", err)
	}
	beside(t)
	dir, gantry := t.TempDir(), gantryLink(t)
	flow := cliTest{t, dir}.write("Makeflow", "out:\n\ttrue\n")
	environment := []string{"env", "DOCKER_HOST=unix://" + dir + "/none.sock", image.DirEnv + "=" + dir + "/images"}
	try := func(name string, programs ...string) (refused string) {
		home := filepath.Join(dir, name)
		programs = append(environment, programs...)
		code, said := under(t, gantry, programs, "run", "-q", "--emulate", "--runtime", "oci", "--name", "r", "--dir",
			home, flow)
		if code == exitOK {
			return ""
		} else if code == exitTasksFailed {
			_, why := under(t, gantry, environment, "explain", "--dir", home, "r", "out")
			said += why
		}
		if left, _ := filepath.Glob(home + "/r/control/oci/*"); code != exitHost || len(left) > 0 {
			t.Errorf("%s: exit code %d, containers %v\n%s", name, code, left, said)
		}
		if code, again := under(t, gantry, programs, "doctor", "--runtime", "oci", "--dir", home); code != exitHost ||
			!strings.Contains(again, strings.Split(said, " (")[0]) {
			t.Errorf("%s: doctor ends with %d and does not say what the run says:\n%s\n%s", name, code, again, said)
		}
		return said
	}
	taken := []string{"chown", "dac_override", "fowner", "kill", "mknod", "net_admin", "setgid", "setpcap", "setuid",
		"sys_admin"}
	var others []string
	for _, name := range strings.Fields(string(all)) {
		if name != "sys_resource" && !slices.Contains(taken, name) {
			others = append(others, name)
		}
	}
	for i, name := range taken {
		if testing.Short() && i%5 != seedtest.Part(5) {
			continue // make test-long has all
		}
		said, docker := try(name, takenAway(name)...), i >= 3 // the first ones are for the files of all runtimes
		if !strings.Contains(said, " without CAP_"+strings.ToUpper(name)+" ") ||
			strings.Contains(said, "use --runtime docker") != docker {
			t.Errorf("without %s: %q", name, said)
		}
	}
	if said := try("all", takenAway("chown", "kill", "net_raw")...); !strings.Contains(said,
		"without CAP_CHOWN, CAP_KILL (") {
		t.Errorf("without several: %q", said)
	}
	if code, said := under(t, gantry, slices.Concat(environment, takenAway("chown")), "image", "build", "--runtime",
		"oci", "gantry/x", "no-such-package"); code != exitHost || !strings.Contains(said, "without CAP_CHOWN (") {
		t.Errorf("an image is built for nothing: %d, %q", code, said)
	}
	if said := try("others", takenAway(others...)...); said != "" {
		t.Errorf("without %v: %s", others, said)
	}
	if !testing.Short() && os.Getenv("GANTRY_TEST_EMULATED") == "" { // else it takes long
		for _, name := range others {
			if said := try(name, takenAway(name)...); said != "" {
				t.Errorf("without %s: %s", name, said)
			}
		}
	}
	// crun before 1.14 raises the limit of locked memory on cgroup v2.
	const resource = "sys_resource"
	limits := []string{"prlimit", "--memlock=99000", "--nofile=300", "--sigpending=99", "--msgqueue=0", "--core=0",
		"--stack=3000000"}
	if said := try("limits", append(limits, takenAway(resource)...)...); said != "" &&
		!strings.Contains(said, "without CAP_SYS_RESOURCE, and with a hard limit of 96 kB of locked memory") {
		t.Errorf("with low limits and without %s: %s", resource, said)
	}
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	var own unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_MEMLOCK, nil, &own) != nil ||
		unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &unlimited, nil) != nil {
		t.Log("the limit of locked memory cannot be raised here")
		return
	}
	defer unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &own, nil)
	if said := try(resource, takenAway(resource)...); said != "" {
		t.Errorf("without %s: %s", resource, said)
	}
}

// With the Docker Engine, root takes only the capabilities that files of other users need: without one of them nothing
// starts, and it runs without all others. The program leaves files that nobody may read or change.
func TestRootWithoutACapabilityOnDocker(t *testing.T) {
	needsBusybox(t)
	all, err := exec.Command("setpriv", "--list-caps").Output()
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("needs root and setpriv: %v", err)
	}
	beside(t)
	dir, gantry := t.TempDir(), gantryLink(t)
	flow := cliTest{t, dir}.write("Makeflow", "d/out:\n\techo 1 >d/out; chmod 0 d/out; chmod 500 d\n"+
		"end: d/out\n\tcat d/out >end\n")
	try := func(home, uid string, names ...string) (code int, said string) {
		args := []string{"--runtime", "docker", "--dir", filepath.Join(dir, home)}
		programs := append([]string{"env", "SUDO_UID=" + uid, "SUDO_GID=" + uid}, takenAway(names...)...)
		code, said = under(t, gantry, programs, append([]string{"run", "-q", "--image", "gantry/busybox", flow},
			args...)...)
		if code == exitOK {
			return code, said
		}
		_, again := under(t, gantry, programs, append([]string{"doctor"}, args...)...)
		return code, said + again
	}
	var others []string
	taken := []string{"chown", "dac_override", "fowner"}
	for _, name := range strings.Fields(string(all)) {
		if !slices.Contains(taken, name) {
			others = append(others, name)
			continue
		}
		code, said := try(name, "0", name)
		why := "runs as root without CAP_" + strings.ToUpper(name)
		if code != exitHost || strings.Count(said, why) < 2 {
			t.Errorf("without %s: exit code %d: %s", name, code, said)
		}
	}
	if code, said := try("others", "47001", others...); code != exitOK {
		t.Errorf("without %v: exit code %d: %s", others, code, said)
	}
}

// What a host lacks is named before anything starts, with a remedy that follows from that.
func TestRemediesFollowFromTheCause(t *testing.T) {
	_, err := os.Stat("/sys/fs/cgroup/pids")
	v1 := err == nil
	beside(t)
	dir := t.TempDir()
	flow := cliTest{t, dir}.write("Makeflow", "out:\n\ttrue\n")
	top := filepath.Join(dir, "groups") // a view of the control groups without those that are named; nothing is removed
	without := func(name string) string {
		return "mkdir -p " + top + " && mount -t tmpfs none " + top + " && for g in /sys/fs/cgroup/*; do n=${g##*/}; " +
			"[ $n = " + name + " ] || { mkdir " + top + "/$n && mount --bind $g " + top + "/$n; }; done " +
			"&& mount --rbind " +
			top + " /sys/fs/cgroup"
	}
	for i, x := range []struct {
		setup string
		v1    bool
		words []string
	}{
		{without("pids"), true, []string{"have no pids", "mount -t cgroup -o pids cgroup"}},
		{without("memory"), true, []string{"memory is mounted", "mount -t cgroup -o memory cgroup"}},
		{"mount --bind /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu && mount -o remount,bind,ro /sys/fs/cgroup/cpu", true,
			[]string{"cannot be made in /sys/fs/cgroup/cpu: read-only file system", "mount it read-write"}},
		{"mount -t tmpfs -o size=4k none /run && mount -t tmpfs -o size=4k none /dev/shm && " +
			"mkdir -m 700 /run/gantry && head -c 4000 /dev/zero >/run/gantry/full", false,
			[]string{"no space left on device", "(free space there)"}},
	} {
		if x.v1 && !v1 {
			continue
		}
		for j, args := range [][]string{{"run", "-q", "--emulate", "--no-prediction"}, {"doctor"}} {
			if testing.Short() && x.v1 && (i+j)%2 != seedtest.Part(2) {
				continue // both say the same
			}
			args = append(args, "--runtime", "oci", "--dir", filepath.Join(dir, "runs"))
			if args[0] == "run" {
				if !x.v1 {
					continue // it is a matter of the run, too
				}
				args = append(args, flow)
			}
			code, said := ownHost(t, x.setup, args...)
			if code != exitHost || strings.Contains(said, "cgroup_enable") {
				t.Errorf("%s, %s: exit code %d\n%s", x.setup, args[0], code, said)
			}
			for _, w := range x.words {
				if !strings.Contains(said, w) {
					t.Errorf("%s, %s: it does not say %q:\n%s", x.setup, args[0], w, said)
				}
			}
		}
	}
}

// A Docker Engine that has other files than gantry, as where gantry is in a container, is refused before
// anything starts.
func TestAnEngineWithOtherFilesIsRefused(t *testing.T) {
	needsDocker(t)
	beside(t)
	dir := t.TempDir()
	setup := "mount -t tmpfs none " + dir + " && cd " + dir + " && printf 'out:\\n\\ttrue\\n' >Makeflow"
	for _, args := range [][]string{{"run", "--emulate", "Makeflow"}, {"doctor"}} {
		code, said := ownHost(t, setup, append(args, "--runtime", "docker", "--dir", "runs")...)
		if code != exitHost || !strings.Contains(said, "bind source path does not exist") ||
			!strings.Contains(said, "gantry seems to have other files than the engine") {
			t.Errorf("%s: exit code %d\n%s", args[0], code, said)
		}
	}
}

// Without a Docker Engine, and with one, commands take a runtime without a daemon where the host can. --runtime decides
// before that.
func TestCommandsTakeTheRuntimeOfTheHost(t *testing.T) {
	needsOCI(t)
	noDocker(t)
	home := t.TempDir()
	t.Setenv(image.DirEnv, filepath.Join(home, "images"))
	flow := cliTest{t, home}.write("Makeflow", "out:\n\ttrue\n")
	run := []string{"run", "--emulate", "--dir", home}
	if code, out, said := invoke(t, append(run, flow)...); code != exitOK || !strings.Contains(out, "on oci") {
		t.Errorf("exit code %d\n%s\n%s", code, out, said)
	}
	expect(t, exitHost, []string{"--runtime oci"}, append(run, "--runtime", "docker", flow)...)
	t.Setenv(oci.RuntimeEnv, "/no/such/crun")
	expect(t, exitHost, []string{"Docker Engine", "does not answer", "DOCKER_HOST"}, append(run, flow)...)
	if code, out, said := invoke(t, "doctor", "--dir", home); code != exitHost ||
		!strings.Contains(out, "/no/such/crun") || !strings.Contains(said, "does not answer") {
		t.Errorf("doctor: exit code %d\n%s\n%s", code, out, said)
	}
}
