package docker_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/oci/image"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/seed/seedtest"
)

// probe builds the program that says what it sees, or takes that of $GANTRY_TEST_PROGRAMS. It has the
// set-user-ID bit of root.
var probe = sync.OnceValues(func() (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "probe")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if built := os.Getenv("GANTRY_TEST_PROGRAMS"); built != "" {
		build = exec.Command("cp", filepath.Join(built, "probe"), path)
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o755|os.ModeSetuid))
})

// above matches the directories above a test's own, of which TMPDIR may name any.
func above() string {
	var all []string
	for dir := os.TempDir(); dir != "/"; dir = filepath.Dir(dir) {
		all = append(all, regexp.QuoteMeta(dir))
	}
	return "(" + strings.Join(all, "|") + `)(/TestA\w+)?`
}

// differences are those that may be, each with its reason.
var differences = []struct{ fact, reason string }{
	{`file /\.dockerenv`, "it is no Docker"},
	{`file (/\.gantry|/var|` + above() + `)`, "crun sets the sticky bit of directories that it makes for mount points"},
	{`file /dev/core`, "crun makes the link to /proc/kcore, which is masked"},
	{`(file|mount) /proc/interrupts`, "masked since Docker 28.3"},
	{`file /proc/latency_stats|file /sys/devices/virtual/powercap`, "masked in Docker by its version"},
	{`(file|mount) /sys/fs/cgroup`, "crun makes it with other permissions on cgroup v1; it is mounted read-only"},
	{`(file|mount) /tmp`, "runc before 1.2 gives it the mode of the image's, whatever it is told"},
	{`priority`, "this one has that of gantry, which nice may have changed"},
	{`mount /`, "Docker's root follows the unmounts of the host"},
	{`mount /etc/hostname`, "the same file from another directory"},
	{`mount /(proc/acpi|proc/scsi|sys|sys/firmware|sys/devices/virtual/powercap)`,
		"runc has the file system read-only, crun its mount"},
	{`mount /proc/(bus|fs|irq|sys|sysrq-trigger)`, "crun mounts these read-only without nosuid, nodev and noexec; " +
		"all in /proc is the kernel's"},
	{`mount /proc/(keys|timer_list|kcore|latency_stats|sched_debug)`, "runc hides them below the container's null " +
		"device, crun below the host's"},
	{`limit Max (core file size|processes|open files|locked memory|pending signals)`, "those that the Docker Engine's have " +
		"where systemd starts it; this one has those of the shell that started it"},
	{`file /sys/fs/cgroup/(misc|rdma)\.\w+`, "controllers of cgroup v2 that neither limit nor count are not enabled " +
		"for attempts"},
	{`self cgroup`, "the empty hierarchy of cgroup v2 on a hybrid host is hidden from crun"},
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

// A program finds the same in containers without a daemon as in Docker's, and may do no more.
func TestAProgramSeesAndMayDoTheSame(t *testing.T) {
	t.Parallel()
	program, err := probe()
	must(t, err)
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
		for fact, want := range map[string]string{"status NoNewPrivs": "1", "status Seccomp": "2", "networks": "1 ok",
			"environment HOME": "/tmp", "status Uid": strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d ", u.UID), 4))} {
			if all[fact] != want {
				t.Errorf("%s: %s: %s", engine, fact, all[fact])
			}
		}
		if !strings.Contains(all["mount /"], " ro,") {
			t.Errorf("%s: the root is mounted as %s", engine, all["mount /"])
		}
		for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
			if all["status Cap"+set] != "0000000000000000" {
				t.Errorf("%s: capabilities %s: %s", engine, set, all["status Cap"+set])
			}
		}
	}
	alike(t, found)
}

// alike tests that programs of both engines found the same, but for the known differences.
func alike(t *testing.T, found map[string]map[string]string) {
	t.Helper()
	if t.Failed() {
		return
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

// packed makes an archive of files: pairs of a name and the content, "-> TO" for a link, or nothing for a directory,
// whose name may be followed by its mode.
func packed(t *testing.T, files ...[2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		name, mode, _ := strings.Cut(f[0], " ")
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f[1]))}
		if mode != "" {
			_, _ = fmt.Sscanf(mode, "%o", &h.Mode)
		}
		if to, ok := strings.CutPrefix(f[1], "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		} else if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		must(t, w.WriteHeader(h))
		if h.Size > 0 {
			if _, err := w.Write([]byte(f[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// imported makes an image of a root directory and changes, as docker import takes them. It returns its names for the
// Docker Engine and without a daemon.
func imported(t *testing.T, root []byte, changes ...string) map[string]string {
	t.Helper()
	storedBusybox(t) // for the store
	name := fmt.Sprintf("gantry-test-%x:1", time.Now().UnixNano())
	args := []string{"import"}
	for _, c := range changes {
		args = append(args, "--change", c)
	}
	load := exec.Command("docker", append(args, "-", name)...)
	load.Stdin = bytes.NewReader(root)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "image", "rm", "--force", name).Run() })
	archive := filepath.Join(t.TempDir(), "image.tar")
	if out, err := exec.Command("docker", "save", "-o", archive, name).CombinedOutput(); err != nil {
		t.Fatalf("docker save: %v\n%s", err, out)
	}
	got, err := store.Fetch(t.Context(), image.Fetch{Options: fetch.Options{Pull: "missing"}},
		[]fetch.Wanted{{Ref: "file://" + archive}})
	must(t, err)
	return map[string]string{"docker": name, "oci": got[0].ID}
}

// What the engine puts above an image is the same, whatever the image has there.
func TestAProgramSeesTheSameWhateverTheImageHas(t *testing.T) {
	t.Parallel()
	engine(t)
	needOCI(t)
	program, err := probe()
	must(t, err)
	for i, c := range []struct {
		name  string
		files [][2]string
	}{
		{"files", [][2]string{{"etc/ 0711", ""}, {"etc/hosts", "1.2.3.4 five"}, {"etc/resolv.conf", "nameserver x"},
			{"etc/mtab", "none"}, {"etc/hostname", "mine"}, {"etc/own", "own"}, {"tmp/ 0777", ""}}},
		{"links", [][2]string{{"real/etc/own", "own"}, {"real/etc/hostname", "-> ../run2/hn"}, {"etc", "-> real/etc"},
			{"proc", "-> real"}, {"sys", "-> real/nowhere"}, {"dev", "-> /real"}, {"tmp/ 1777", ""}}},
		{"links of files", [][2]string{{"etc/hosts", "-> own"}, {"etc/resolv.conf", "-> /run/r"}, {"etc/own", "own"},
			{"etc/hostname", "-> nowhere"}, {"etc/mtab/", ""}, {"real/tmp/ 1777", ""}, {"tmp", "-> real/tmp"}}},
		{"files for directories", [][2]string{{"etc", "file"}, {"dev", "file"}, {"proc", "file"}, {"sys", "file"},
			{"tmp/ 1777", ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && i%2 != seedtest.Part(2) {
				t.Skip("the seed takes the others")
			}
			names := imported(t, packed(t, c.files...))
			found := map[string]map[string]string{}
			onBoth(t, func(t *testing.T, engine string) {
				r := newRig(t, func(c *container.Config) { c.PIDs = 64 })
				s := r.sh("")
				s.Image, s.Command, s.Shell = names[engine], []string{"/probe", "argument"}, false
				s.Mounts, s.Env = []string{program + ":/probe"}, []string{"OWN=1"}
				for range 2 {
					r.wants(r.exit(r.launch(s, nil)), planner.OK)
				}
				found[engine] = facts(t, r.config.Dir, r.read(filepath.Join(r.work(s), ".command.out")))
			})
			alike(t, found)
		})
	}
}

// The volumes that an image declares can be written to, have what the image has there, count as disk space, and go with
// the attempt.
func TestVolumesOfAnImageBelongToTheAttempt(t *testing.T) {
	t.Parallel()
	engine(t)
	needOCI(t)
	root := filesOfBusybox(t)
	// Entries after the end of the archive would not be read.
	seeded := packed(t, [2]string{"scratch/ 1777", ""}, [2]string{"scratch/seed 0640", "seed"},
		[2]string{"scratch/sub/ 0700", ""}, [2]string{"scratch/sub/more", "more"}, [2]string{"scratch/link", "-> seed"})
	names := imported(t, append(seeded[:len(seeded)-1024:len(seeded)-1024], root...),
		`VOLUME ["/scratch", "/new/volume", "/scratch/", "/tmp"]`)
	found := map[string]string{}
	onBoth(t, func(t *testing.T, engine string) {
		r := newRig(t, func(c *container.Config) { c.Disk = 4 << 20 })
		for range 2 { // the second has what the image has, and nothing of the first
			s := r.sh("find /scratch /new -exec stat -c '%n %F %a %u %g %s' {} + | grep -v directory; " +
				"stat -c '%n %a %u %g %h' /scratch /scratch/sub /new/volume; echo x >/scratch/x && ls /scratch; " +
				"touch /new/volume/x || echo refused; touch /beside || echo refused; echo t >/tmp/t")
			s.Image = names[engine]
			a := r.launch(s, nil)
			r.wants(r.exit(a), planner.OK)
			found[engine] += r.read(filepath.Join(r.work(s), ".command.out"))
			r.must(r.Forget(r.ctx, a))
		}
		s := r.sh("dd if=/dev/zero of=/scratch/big bs=1M count=6")
		s.Image = names[engine]
		a := r.launch(s, nil)
		r.wants(r.exit(a), planner.OutOfDisk, "limit is 4.194 MB")
		r.must(r.Forget(r.ctx, a))
		waitFor(t, func() bool {
			left, _ := filepath.Glob(filepath.Join(r.config.Dir, "control", "*", "*"))
			return len(left) == 0
		})
	})
	if !strings.Contains(found["oci"], "/scratch/seed regular file 640 0 0 4\n") || found["docker"] != found["oci"] {
		t.Errorf("in Docker:\n%s\nwithout a daemon:\n%s", found["docker"], found["oci"])
	}
}

// A program that ends all it can reach ends neither the launcher nor itself.
func TestAProgramMayKillAllItSees(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, engine string) {
		r := newRig(t, nil)
		s := r.sh("sleep 100 & kill -9 -1; kill -9 1; kill -9 -1; echo alive; exit 3")
		r.wants(r.exit(r.launch(s, nil)), planner.ExitCode)
		if out := r.read(filepath.Join(r.work(s), ".command.out")); out != "alive\n" {
			t.Errorf("%q", out)
		}
	})
}

// filesOfBusybox is an archive of the files of the image.
func filesOfBusybox(t *testing.T) []byte {
	t.Helper()
	root, err := exec.Command("sh", "-c", `id=$(docker create "$1" none) && docker export "$id"; docker rm "$id" >&2`,
		"sh", busybox).Output()
	must(t, err)
	return root
}

// An image cannot lead a mount of gantry's, or one of the user's, to another place: its program would begin as root in
// place of the launcher, or write its own verdict.
func TestAnImageDoesNotChooseThePlacesOfMounts(t *testing.T) {
	t.Parallel()
	engine(t)
	needOCI(t)
	root := filesOfBusybox(t)
	add := func(entries ...[2]string) []byte {
		first := packed(t, entries...)
		return append(first[:len(first)-1024:len(first)-1024], root...)
	}
	own := [2]string{"v/l 0755", "#!/bin/sh\nid >/.gantry/control/stolen\n"}
	for _, c := range []struct {
		name, says string
		image      []byte
		changes    string
		mounts     []string // HOST is a directory of the host's
	}{
		{"link to a volume", "has a link on the way to /.gantry-task", add([2]string{".gantry-task", "-> /v/l"}, own),
			`VOLUME ["/v"]`, nil},
		{"link in place of the control directory", "has a link on the way to /.gantry/control",
			add([2]string{".gantry", "-> /v"}, own), `LABEL a=b`, nil},
		{"volume for the control directory", "declares a volume at /.gantry/control/publishing",
			add(), `VOLUME ["/.gantry/control/publishing"]`, nil},
		{"volume by a link", "declares a volume at /x/control", add([2]string{"x", "-> .gantry"}),
			`VOLUME ["/x/control"]`, nil},
		{"mount by a link", "the mount at /a/.gantry-task hides /.gantry-task", add([2]string{"a", "-> b/../.."},
			[2]string{"b/", ""}), `LABEL a=b`, []string{"HOST:/a/.gantry-task"}},
		{"mount in a mount", "one is in the other", add(), `LABEL a=b`, []string{"HOST:/a", "HOST:/a/x/.gantry-task"}},
		{"mount at the root", "the mount at /a hides /", add([2]string{"a", "-> /"}), `LABEL a=b`,
			[]string{"HOST:/a"}},
		{"harmless", "", add([2]string{"run/ 0755", ""}, [2]string{"var/run", "-> ../run"}),
			`VOLUME ["/var/run/sockets"]`, []string{"HOST:/var/run/data"}},
	} {
		names := imported(t, c.image, c.changes)
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			onBoth(t, func(t *testing.T, engine string) {
				r := newRig(t, nil)
				s := r.sh("ls -d /run/sockets /run/data")
				s.Image = names[engine]
				host := t.TempDir()
				for _, m := range c.mounts {
					s.Mounts = append(s.Mounts, strings.ReplaceAll(m, "HOST", host))
				}
				a := r.launch(s, nil)
				if x := r.exit(a); c.says == "" {
					r.wants(x, planner.OK)
				} else {
					r.wants(x, planner.HostError, c.says)
				}
			})
		})
	}
}
