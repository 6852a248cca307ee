package docker_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gantry/executor/container"
	"gantry/executor/stage"
	"gantry/planner"
)

// probe builds the program that says what it sees.
func probe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// differences are those that may be, each with its reason.
var differences = []struct{ fact, reason string }{
	{`file /\.dockerenv`, "it is no Docker"},
	{`file /(\.gantry|tmp/TestA\w+)`, "crun sets the sticky bit of directories that it makes for mount points"},
	{`file /dev/core`, "crun makes the link to /proc/kcore, which is masked"},
	{`(file|mount) /proc/interrupts`, "masked since Docker 28.3"},
	{`file /proc/latency_stats|file /sys/devices/virtual/powercap`, "masked in Docker by its version"},
	{`(file|mount) /sys/fs/cgroup`, "crun makes it with other permissions on cgroup v1; it is mounted read-only"},
	{`mount /`, "Docker's root follows the unmounts of the host"},
	{`mount /etc/hostname`, "the same file from another directory"},
	{`mount /(proc/acpi|proc/scsi|sys|sys/firmware|sys/devices/virtual/powercap)`,
		"runc has the file system read-only, crun its mount"},
	{`mount /proc/(bus|fs|irq|sys|sysrq-trigger)`, "crun mounts these read-only without nosuid, nodev and noexec; " +
		"all in /proc is the kernel's"},
	{`mount /proc/(keys|timer_list|kcore|latency_stats|sched_debug)`, "runc hides them below the container's null " +
		"device, crun below the host's"},
	{`(file|mount) /sys/fs/cgroup/(hugetlb|misc|net_cls|net_prio|net_cls,net_prio|perf_event|rdma)(/.*)?`,
		"hierarchies that neither limit nor count are hidden from crun"},
	{`limit Max (core file size|processes|open files|locked memory|pending signals)`, "those that the Docker Engine's have " +
		"where systemd starts it; this one has those of the shell that started it"},
	{`self cgroup`, "the empty hierarchy of cgroup v2 on a hybrid host is hidden from crun, and those of v1 that " +
		"neither limit nor count"},
	{`status SigIgn`, "Docker's shim ignores a signal of the C library"},
	{`socket (alg|vsock)|system call (41|42[567])`, "refused since Docker 20.10: the profile is that of today's " +
		"Docker"},
	{`system call (303|310|311|329|330|331)`, "allowed since Docker 20.10: the profile is that of today's Docker"},
	{`system call 4[5-7]\d`, "newer than the profile: runc says ENOSYS, crun EPERM"},
}

// own are facts of one process, which no two have in common.
var own = regexp.MustCompile(`^(status (NSp|P|PP)id|self autogroup|session|file /proc/(thread-)?self)$`)

// refused are the ways in which writing is refused.
var refused = strings.NewReplacer("EROFS", "refused", "EACCES", "refused")

var (
	longID    = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	shortID   = regexp.MustCompile(`\b[0-9a-f]{12}\b`)
	pipe      = regexp.MustCompile(`pipe:\[\d+\]`)
	namespace = regexp.MustCompile(`^namespace (\w+): (\S+)`)
	runName   = regexp.MustCompile(`test-testaprogram[0-9a-z-]+`)
	// Docker's containers have a group below that of their attempt.
	belowAttempt = regexp.MustCompile(`(/NAME/n0/a\d)/ID\b`)
)

// facts are what the probe found, without what differs between any two containers.
func facts(t *testing.T, dir, text string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.ReplaceAll(line, dir, "RUN"))
		if m := namespace.FindStringSubmatch(line); m != nil {
			whose := "its own"
			if host, _ := os.Readlink("/proc/self/ns/" + m[1]); host == m[2] {
				whose = "the host's"
			}
			line = "namespace " + m[1] + ": " + whose
		}
		for _, r := range []struct {
			re *regexp.Regexp
			to string
		}{{longID, "ID"}, {shortID, "HOST"}, {pipe, "pipe"}, {runName, "NAME"}, {belowAttempt, "$1"}} {
			line = r.re.ReplaceAllString(line, r.to)
		}
		fact, finding, _ := strings.Cut(strings.TrimSuffix(line, ":"), ": ")
		if own.MatchString(fact) {
			continue
		}
		if strings.HasPrefix(fact, "file ") || strings.HasPrefix(fact, "try ") {
			finding = refused.Replace(finding)
		}
		if old := found[fact]; old != "" && old != finding {
			finding = old + " and " + finding
		}
		found[fact] = finding
	}
	return found
}

// onBoth tests with the Docker Engine and without a daemon.
func onBoth(t *testing.T, test func(t *testing.T, engine string)) {
	t.Helper()
	engine(t)
	needOCI(t)
	for _, engine := range []string{"docker", "oci"} {
		withoutDaemon = engine == "oci" // until the test has cleaned up
		t.Run(engine, func(t *testing.T) { test(t, engine) })
		withoutDaemon = false
	}
}

// A program finds the same in containers without a daemon as in Docker's, and may do no more.
func TestAProgramSeesAndMayDoTheSame(t *testing.T) {
	program := probe(t)
	// A program that would run as root if it were let.
	if err := os.Chmod(program, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	escape := regexp.MustCompile(`^(try|first process) `)
	found := map[string]map[string]string{}
	onBoth(t, func(t *testing.T, engine string) {
		r := newRig(t, func(c *container.Config) { c.PIDs = 64 })
		s := r.sh("")
		s.Command, s.Shell = []string{"/probe", "argument"}, false
		s.Mounts, s.Env = []string{program + ":/probe"}, []string{"OWN=1"}
		for _, nth := range []string{"first", "second"} { // which has the filter of system calls that the first left
			r.wants(r.exit(r.launch(s, nil)), planner.OK)
			now := facts(t, r.config.Dir, r.read(filepath.Join(r.work(s), ".command.out")))
			if len(now) < 1000 {
				t.Fatalf("%s: %d facts of the %s container", engine, len(now), nth)
			}
			for fact, before := range found[engine] {
				if strings.HasPrefix(fact, "system call ") && now[fact] != before {
					t.Errorf("%s: %s: %q, %q in the %s container", engine, fact, before, now[fact], nth)
				}
			}
			found[engine] = now
		}
	})
	for engine, all := range found {
		for fact, finding := range all {
			if escape.MatchString(fact) && finding == "ok" {
				t.Errorf("%s: %s works", engine, fact)
			}
		}
		u := stage.ProgramUser()
		if want := strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", u.UID), 4)); all["status Uid"] != want ||
			all["status NoNewPrivs"] != "1" || all["status Seccomp"] != "2" {
			t.Errorf("%s: users %s, no new rights %s, seccomp %s", engine, all["status Uid"], all["status NoNewPrivs"],
				all["status Seccomp"])
		}
		for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
			if all["status Cap"+set] != "0000000000000000" {
				t.Errorf("%s: capabilities %s: %s", engine, set, all["status Cap"+set])
			}
		}
	}
	all := maps.Clone(found["docker"])
	maps.Copy(all, found["oci"])
	for _, fact := range slices.Sorted(maps.Keys(all)) {
		d, o := found["docker"][fact], found["oci"][fact]
		if d == o {
			continue
		}
		if !slices.ContainsFunc(differences, func(x struct{ fact, reason string }) bool {
			return regexp.MustCompile("^(" + x.fact + ")$").MatchString(fact)
		}) {
			t.Errorf("%s: %q in Docker, %q without a daemon", fact, d, o)
		}
	}
}

// A program that ends all it can reach ends neither the launcher nor itself.
func TestAProgramMayKillAllItSees(t *testing.T) {
	onBoth(t, func(t *testing.T, engine string) {
		r := newRig(t, nil)
		s := r.sh("sleep 100 & kill -9 -1; kill -9 1; kill -9 -1; echo alive; exit 3")
		r.wants(r.exit(r.launch(s, nil)), planner.ExitCode)
		if out := r.read(filepath.Join(r.work(s), ".command.out")); out != "alive\n" {
			t.Errorf("%q", out)
		}
	})
}
