package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gantry/cgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return root
}

func open(t *testing.T, root string, systemd bool) *cgroup.Tree {
	t.Helper()
	x, err := cgroup.Open(root, systemd)
	must(t, err)
	return x
}

var v1Files = map[string]string{
	"cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "memory/cgroup.procs": "",
	"memory/memory.memsw.limit_in_bytes": "9223372036854771712\n",
	"memory/memory.memsw.usage_in_bytes": "0\n",
	"blkio/cgroup.procs":                 "", "pids/cgroup.procs": "",
	"cpuacct/g/c/cpuacct.usage":              "580800000\n",
	"cpuacct/g/c/cpuacct.usage_sys":          "80000000\n",
	"cpu/g/c/cpu.stat":                       "nr_periods 43\nnr_throttled 40\nthrottled_time 1234567\n",
	"cpu/g/c/cpu.cfs_quota_us":               "10000\n",
	"cpu/g/c/cpu.cfs_period_us":              "20000\n",
	"memory/g/c/memory.max_usage_in_bytes":   "86000000\n",
	"memory/g/c/memory.oom_control":          "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	"memory/g/c/memory.limit_in_bytes":       "67108864\n",
	"memory/g/c/memory.memsw.limit_in_bytes": "9223372036854771712\n",
	"pids/g/c/pids.events":                   "max 7\n",
	"pids/g/c/pids.max":                      "512\n",
	"blkio/g/c/blkio.throttle.io_service_bytes_recursive": "259:0 Read 4096\n259:0 Write 7340032\n259:0 Sync " +
		"7344128\n259:0 Total 7344128\n260:0 Write 8\nTotal 7344136\n",
	"blkio/g/c/blkio.throttle.io_serviced_recursive":        "259:0 Read 1\n259:0 Write 7\n259:0 Total 8\nTotal 8\n",
	"blkio/g/c/blkio.throttle.read_bps_device":              "259:0 1048576\n",
	"blkio/g/c/blkio.throttle.write_iops_device":            "1:1 5\n259:0 99\n",
	"blkio/empty/blkio.throttle.io_service_bytes_recursive": "Total 0\n",
	"blkio/empty/blkio.throttle.io_serviced_recursive":      "Total 0\n",
}

var v2Files = map[string]string{
	"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "", "g/cgroup.subtree_control": "",
	"g/memory.swap.max": "max\n",
	"g/c/cpu.stat": "usage_usec 580800\nuser_usec 500800\nsystem_usec 80000\nnr_periods 43\nnr_throttled " +
		"40\nthrottled_usec 1234\n",
	"g/c/cpu.max":         "10000 20000\n",
	"g/c/memory.peak":     "86000000\n",
	"g/c/memory.max":      "67108864\n",
	"g/c/memory.swap.max": "0\n",
	"g/c/memory.events":   "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n",
	"g/c/pids.events":     "max 7\n",
	"g/c/pids.max":        "512\n",
	"g/c/io.stat": "259:0 rbytes=4096 wbytes=7340032 rios=1 wios=7 dbytes=0 dios=0\n260:0 rbytes=0 wbytes=8 " +
		"rios=0 wios=0\n",
	"g/c/io.max":          "259:0 rbps=1048576 wbps=max riops=max wiops=99\n",
	"g/old/cpu.stat":      "usage_usec 5\nuser_usec 3\nsystem_usec 2\n",
	"g/unlimited/cpu.max": "max 100000\n", "g/unlimited/memory.max": "max\n", "g/unlimited/pids.max": "max\n",
	"g/unlimited/memory.swap.max": "max\n",
}

var disk = cgroup.Device{Major: 259, Path: "/dev/nvme0n1"}

func TestCountersAndLimitsAreReadAlikeOnBothVersions(t *testing.T) {
	for name, files := range map[string]map[string]string{"v1": v1Files, "v2": v2Files} {
		t.Run(name, func(t *testing.T) {
			x := open(t, tree(t, files), false)
			c := x.Read("g/c", cgroup.Everything)
			want := cgroup.Counters{CPU: 580800 * time.Microsecond, CPUUser: 500800 * time.Microsecond,
				CPUSystem: 80 * time.Millisecond,
				Throttled: 1234567, PeakMemory: 86_000_000, OOMKills: 2, ReadBytes: 4096,
				WrittenBytes: 7340040, ReadOps: 1, WriteOps: 7,
				ForksRefused: 7, Got: cgroup.Everything}
			if name == "v2" {
				want.Throttled = 1234 * time.Microsecond
			}
			if c != want {
				t.Errorf("counters %+v\n    want %+v", c, want)
			}
			l := x.Limits("g/c", disk)
			wantL := cgroup.Limits{CPUQuota: 10 * time.Millisecond, CPUPeriod: 20 * time.Millisecond, Memory: 64 << 20,
				PIDs: 512, ReadBps: 1 << 20,
				WriteIOPS: 99, Device: disk}
			if name == "v2" {
				wantL.MemorySwap = 64 << 20
			}
			if l != wantL {
				t.Errorf("limits %+v\n  want %+v", l, wantL)
			}
		})
	}
}

func TestWhatCannotBeReadIsMissingNotZero(t *testing.T) {
	x := open(t, tree(t, v1Files), false)
	if c := x.Read("gone", cgroup.Everything); c.Got != 0 {
		t.Errorf("a group that is not there gave %b", c.Got)
	}
	if c := x.Read("empty", cgroup.Everything); c.Got != cgroup.IO || c.ReadBytes != 0 {
		t.Errorf("no block I/O yet: %+v", c)
	}
	y := open(t, tree(t, v2Files), false)
	if c := y.Read("g/old", cgroup.Everything); c.Got != cgroup.CPU {
		t.Errorf("an old kernel without memory.peak gave %b", c.Got)
	}
	if l := y.Limits("g/unlimited", disk); l != (cgroup.Limits{}) {
		t.Errorf("unlimited is %+v", l)
	}
}

func TestReadingsMergeToWhatEitherKnows(t *testing.T) {
	parent := cgroup.Counters{CPU: 5, CPUUser: 4, CPUSystem: 1, PeakMemory: 9, Got: cgroup.CPU | cgroup.Memory}
	child := cgroup.Counters{CPU: 4, CPUUser: 1, CPUSystem: 3, WrittenBytes: 7, OOMKills: 1,
		Got: cgroup.IO | cgroup.OOM}
	got := parent.Max(child)
	want := cgroup.Counters{CPU: 5, CPUUser: 4, CPUSystem: 1, PeakMemory: 9, WrittenBytes: 7, OOMKills: 1,
		Got: cgroup.CPU | cgroup.Memory | cgroup.IO | cgroup.OOM}
	if got != want {
		t.Errorf("%+v", got)
	}
}

func TestModes(t *testing.T) {
	hybrid := map[string]string{"unified/cgroup.controllers": ""}
	for k, v := range v1Files {
		hybrid[k] = v
	}
	for _, c := range []struct {
		files map[string]string
		mode  cgroup.Mode
	}{{v1Files, cgroup.Legacy}, {hybrid, cgroup.Hybrid}, {v2Files, cgroup.Unified}} {
		if got := open(t, tree(t, c.files), false).Mode(); got != c.mode {
			t.Errorf("mode %v, not %v", got, c.mode)
		}
	}
	if _, err := cgroup.Open(tree(t, map[string]string{"x": ""}), false); !errors.Is(err, cgroup.ErrUnavailable) {
		t.Errorf("an empty tree: %v", err)
	}
}

func TestGroupsUnderBothDrivers(t *testing.T) {
	root := tree(t, v2Files)
	for _, c := range []struct {
		systemd                  bool
		group, parent, container string
	}{
		{false, "gantry/calm-hopper-4f2a/n_201", "/gantry/calm-hopper-4f2a/n_201", "gantry/calm-hopper-4f2a/n_201/abc"},
		{true, "gantry.slice/gantry-calm_hopper_4f2a.slice/gantry-calm_hopper_4f2a-n_201.slice",
			"gantry-calm_hopper_4f2a-n_201.slice",
			"gantry.slice/gantry-calm_hopper_4f2a.slice/gantry-calm_hopper_4f2a-n_201.slice/docker-abc.scope"},
	} {
		x := open(t, root, c.systemd)
		g := x.Group("gantry", x.Name("calm-hopper-4f2a"), x.Name("n 1"))
		if g != c.group || x.Parent(g) != c.parent || x.Container(g, "abc") != c.container {
			t.Errorf("systemd %v: group %s, parent %s, container %s", c.systemd, g, x.Parent(g), x.Container(g, "abc"))
		}
	}
}

func TestNamesCannotLeaveTheTree(t *testing.T) {
	x := open(t, tree(t, v2Files), false)
	seen := map[string]string{}
	for _, n := range []string{"..", ".", "a/b", "a b", "A", "a", "é", "a_b", "-", "", "_41"} {
		g := x.Name(n)
		if strings.ContainsAny(g, "/ ") || g == ".." || g == "." {
			t.Errorf("%q became %q", n, g)
		}
		if other, ok := seen[g]; ok {
			t.Errorf("%q and %q both became %q", n, other, g)
		}
		seen[g] = n
	}
	for _, g := range []string{"", "/", "..", "../x", "."} {
		if err := x.Remove(g); err == nil {
			t.Errorf("removed %q", g)
		}
	}
}

func TestLimitsAreWritten(t *testing.T) {
	l := cgroup.Limits{CPUQuota: 50 * time.Millisecond, CPUPeriod: 100 * time.Millisecond, Memory: 1 << 30,
		MemorySwap: 1 << 30, PIDs: 100,
		ReadBps: 1000, WriteBps: 2000, ReadIOPS: 30, WriteIOPS: 40, Device: disk}
	for name, c := range map[string]struct{ files, want map[string]string }{
		"v1": {v1Files, map[string]string{"cpu/g/c/cpu.cfs_quota_us": "50000", "cpu/g/c/cpu.cfs_period_us": "100000",
			"memory/g/c/memory.limit_in_bytes": "1073741824", "memory/g/c/memory.memsw.limit_in_bytes": "1073741824",
			"pids/g/c/pids.max":                          "100",
			"blkio/g/c/blkio.throttle.read_bps_device":   "259:0 1000",
			"blkio/g/c/blkio.throttle.write_bps_device":  "259:0 2000",
			"blkio/g/c/blkio.throttle.read_iops_device":  "259:0 30",
			"blkio/g/c/blkio.throttle.write_iops_device": "259:0 40"}},
		"v2": {v2Files, map[string]string{"g/c/cpu.max": "50000 100000", "g/c/memory.max": "1073741824",
			"g/c/memory.swap.max": "0", "g/c/pids.max": "100",
			"g/c/io.max": "259:0 wiops=40", "g/cgroup.subtree_control": "+cpu +memory +pids +io"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, c.files)
			must(t, open(t, root, false).Create("g/c", l))
			for f, want := range c.want {
				b, err := os.ReadFile(filepath.Join(root, f))
				if err != nil || string(b) != want {
					t.Errorf("%s is %q, not %q (%v)", f, b, want, err)
				}
			}
		})
	}
}

func TestDeviceOfAPartitionIsItsDisk(t *testing.T) {
	sys := tree(t, map[string]string{
		"devices/vda/dev": "254:0\n", "devices/vda/uevent": "MAJOR=254\nMINOR=0\nDEVNAME=vda\n",
		"devices/vda/vda1/dev": "254:1\n", "devices/vda/vda1/partition": "1\n",
		"devices/vda/vda1/uevent": "DEVNAME=vda1\n",
		"devices/dm-0/dev":        "253:0\n", "devices/dm-0/uevent": "DEVNAME=dm-0\n", "block/x": ""})
	for link, to := range map[string]string{"254:0": "vda", "254:1": "vda/vda1", "253:0": "dm-0"} {
		must(t, os.Symlink("../devices/"+to, filepath.Join(sys, "block", link)))
	}
	for _, c := range []struct {
		major, minor uint32
		want         cgroup.Device
		ok           bool
	}{
		{254, 1, cgroup.Device{Major: 254, Minor: 0, Path: "/dev/vda"}, true},
		{254, 0, cgroup.Device{Major: 254, Minor: 0, Path: "/dev/vda"}, true},
		{253, 0, cgroup.Device{Major: 253, Minor: 0, Path: "/dev/dm-0"}, true},
		{0, 42, cgroup.Device{}, false}, // overlay, tmpfs, btrfs
		{8, 1, cgroup.Device{}, false},
	} {
		if d, ok := cgroup.DeviceAt(filepath.Join(sys, "block"), c.major, c.minor); d != c.want || ok != c.ok {
			t.Errorf("%d:%d is %+v, %v", c.major, c.minor, d, ok)
		}
	}
}

// kernel opens the real tree; it skips where groups cannot be made.
func kernel(t *testing.T) (*cgroup.Tree, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make control groups")
	}
	x, err := cgroup.Open(cgroup.Root, false)
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	group := fmt.Sprintf("gantry-test-%d", time.Now().UnixNano())
	if err := x.Create(group, cgroup.Limits{}); err != nil {
		t.Skipf("needs to make control groups: %v", err)
	}
	t.Cleanup(func() {
		if err := x.Remove(group); err != nil {
			t.Error(err)
		}
	})
	return x, group
}

// joined runs a shell script in a group, in every hierarchy that the package reads.
func joined(x *cgroup.Tree, group, script string) *exec.Cmd {
	var join []string
	for _, c := range []string{"cpuacct", "cpu", "memory", "pids", "blkio"} {
		join = append(join, "echo $$ > "+filepath.Join(x.Dir(c, group), "cgroup.procs"))
	}
	return exec.Command("sh", "-c", strings.Join(join, " && ")+" && "+script)
}

func TestKernelAppliesLimits(t *testing.T) {
	x, group := kernel(t)
	want := cgroup.Limits{CPUQuota: 50 * time.Millisecond, CPUPeriod: 100 * time.Millisecond, Memory: 64 << 20,
		PIDs: 100}
	must(t, x.Create(group+"/n", want))
	if got := x.Limits(group+"/n", cgroup.Device{}); got.CPUQuota != want.CPUQuota || got.CPUPeriod != want.CPUPeriod ||
		got.Memory != want.Memory || got.PIDs != want.PIDs {
		t.Errorf("applied %+v", got)
	}
	if got := x.Children(group); len(got) != 1 || got[0] != "n" {
		t.Errorf("children %v", got)
	}
	for range 2 { // removing what is gone is no error
		if err := x.Remove(group + "/n"); err != nil {
			t.Error(err)
		}
	}
	if got := x.Children(group); len(got) != 0 {
		t.Errorf("children after removal %v", got)
	}
}

// A run that ends leaves gantry's own group where another run has a group: an OCI runtime makes its groups one by one.
func TestAGroupOfAnotherRunKeepsItsParents(t *testing.T) {
	x, top := kernel(t)
	other := filepath.Join(top, "other", "n0")
	err := x.Create(other, cgroup.Limits{CPUQuota: 10 * time.Millisecond, CPUPeriod: 20 * time.Millisecond})
	must(t, err)
	devices := x.Dir("devices", top) // of the only hierarchy on v2
	must(t, os.MkdirAll(devices, 0o755))
	x.RemoveEmpty(top)
	if _, err := os.Stat(devices); err != nil {
		t.Error(err)
	}
	must(t, x.Remove(filepath.Dir(other)))
	x.RemoveEmpty(top)
	if _, err := os.Stat(devices); err == nil {
		t.Errorf("%s is left", devices)
	}
}

// A run that ends removes gantry's own group, which another one may just be about to use.
func TestAGroupThatIsRemovedMeanwhileIsMadeAgain(t *testing.T) {
	x, top := kernel(t)
	done := make(chan struct{})
	var removing sync.WaitGroup
	defer removing.Wait()
	defer close(done)
	removing.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Microsecond):
				x.RemoveEmpty(top)
			}
		}
	})
	for n := range 300 {
		run := filepath.Join(top, fmt.Sprint("run-", n))
		group := filepath.Join(run, "n0")
		err := x.Create(group, cgroup.Limits{CPUQuota: 10 * time.Millisecond, CPUPeriod: 20 * time.Millisecond})
		if err != nil {
			t.Fatalf("group %d: %v", n, err)
		}
		if !slices.Contains(x.Children(run), "n0") {
			t.Fatalf("group %d is gone", n)
		}
		must(t, x.Remove(run))
	}
}

func TestGroupWithProcessesIsNotRemoved(t *testing.T) {
	x, group := kernel(t)
	must(t, x.Create(group+"/n", cgroup.Limits{}))
	c := joined(x, group+"/n", "echo in; exec sleep 100")
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if x.Empty(group) {
		t.Error("a group with a process below it is said to be empty")
	}
	if err := x.Remove(group + "/n"); err == nil {
		t.Error("removed with a process in it")
	}
	if n := x.Kill(group); n != 1 {
		t.Errorf("%d processes killed", n)
	}
	if c.Wait(); c.ProcessState.ExitCode() != -1 {
		t.Errorf("it was not killed: %v", c.ProcessState)
	}
	if n := x.Kill(group); n != 0 || !x.Empty(group) {
		t.Errorf("%d processes killed in an empty group", n)
	}
	if err := x.Remove(group + "/n"); err != nil {
		t.Error(err)
	}
}

// TestFinalCountersOutliveTheGroup does as runc does: it makes a group, lets processes come and go in it, and removes
// it at once. On a busy host the watcher may be too late for some, and says so.
func TestFinalCountersOutliveTheGroup(t *testing.T) {
	x, group := kernel(t)
	w, err := x.NewWatcher(cgroup.Device{}, nil)
	must(t, err)
	defer w.Close()
	missed := 0
	for i := range 10 {
		child := fmt.Sprintf("%s/c%d", group, i)
		must(t, w.Watch(int64(i), child, cgroup.Everything))
		must(t, x.Create(child, cgroup.Limits{PIDs: 50}))
		// The first process ends while another lives, as those of runc do.
		if out, err := joined(x, child, "(i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done) & sleep 0.02; exec sh "+
			"-c 'sleep 0.03; i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done'").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		for !x.Empty(child) {
			time.Sleep(time.Millisecond)
		}
		whole := x.Read(child, cgroup.Everything)
		time.Sleep(10 * time.Millisecond) // as long as runc takes
		must(t, x.Remove(child))
		f := w.Final(int64(i))
		if f.Exact == 0 {
			if missed++; missed > 5 {
				t.Fatalf("%d of %d groups were missed", missed, i+1)
			}
			continue
		}
		if f.Exact != whole.Got {
			t.Errorf("%d: exact %b, not %b", i, f.Exact, whole.Got)
		}
		if f.CPU == 0 || f.CPU < whole.CPU*95/100 || f.CPU > whole.CPU*105/100 || f.PeakMemory != whole.PeakMemory {
			t.Errorf("%d: CPU %v of %v, peak %d of %d", i, f.CPU, whole.CPU, f.PeakMemory, whole.PeakMemory)
		}
		if f.Limits.PIDs != 50 {
			t.Errorf("%d: limits %+v", i, f.Limits)
		}
	}
}

func TestLongLivedGroupsAreSampled(t *testing.T) {
	x, group := kernel(t)
	samples := make(chan cgroup.Sample, 100)
	w, err := x.NewWatcher(cgroup.Device{}, func(s cgroup.Sample) { samples <- s })
	must(t, err)
	defer w.Close()
	c := joined(x, group, "while :; do :; done")
	must(t, c.Start())
	defer func() { c.Process.Kill(); c.Wait() }()
	if err := w.Watch(5, group, cgroup.Everything); err != nil { // it is there already: adopted
		t.Fatal(err)
	}
	var last cgroup.Sample
	for range 2 {
		s := <-samples
		if s.Key != 5 || s.CPU <= last.CPU {
			t.Errorf("sample %+v after %+v", s, last)
		}
		last = s
	}
	if f := w.Final(5); f.Exact&^cgroup.OOM != 0 || f.CPU < last.CPU {
		t.Errorf("of a group that lives nothing but kills for memory is exact: %+v", f)
	}
}

// A group may come and end before the thread of the watcher has looked at it once: on a busy host, or as here, where
// the thread waits for somebody who takes a sample.
func TestGroupsAreReadThatNobodyFound(t *testing.T) {
	x, group := kernel(t)
	taken, over := make(chan bool, 1), make(chan bool)
	w, err := x.NewWatcher(cgroup.Device{}, func(cgroup.Sample) {
		taken <- true
		<-over
	})
	must(t, err)
	defer w.Close()
	defer close(over)
	seen, child := group+"/seen", group+"/unseen"
	must(t, x.Create(seen, cgroup.Limits{}))
	lives := joined(x, seen, "read line")
	in, err := lives.StdinPipe()
	must(t, err)
	must(t, lives.Start())
	defer func() { in.Close(); lives.Wait(); must(t, x.Remove(seen)) }()
	must(t, w.Watch(1, seen, cgroup.Everything))
	<-taken
	must(t, w.Watch(2, child, cgroup.Everything))
	must(t, x.Create(child, cgroup.Limits{PIDs: 50}))
	if out, err := joined(x, child, "true").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if f := w.Final(2); f.Exact != cgroup.Everything || f.Limits.PIDs != 50 || f.CPU == 0 {
		t.Errorf("%+v", f)
	}
	if err := x.Remove(child); err != nil {
		t.Error(err)
	}
}

func TestAGroupIsWatchedTwice(t *testing.T) {
	x, group := kernel(t)
	w, err := x.NewWatcher(cgroup.Device{}, nil)
	must(t, err)
	defer w.Close()
	child := group + "/twice"
	must(t, x.Create(child, cgroup.Limits{}))
	for key := range int64(2) {
		must(t, w.Watch(key, child, cgroup.Everything))
	}
	if out, err := joined(x, child, "sleep 0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for key := range int64(2) {
		if f := w.Final(key); f.Exact != cgroup.Everything || f.CPU == 0 {
			t.Errorf("%d: %+v", key, f)
		}
	}
	must(t, x.Remove(child))
}

func TestGroupsAreFoundWithoutInotify(t *testing.T) {
	x, group := kernel(t)
	w, err := x.NewWatcher(cgroup.Device{}, nil)
	must(t, err)
	defer w.Close()
	w.LoseInotify()
	child := group + "/late"
	must(t, w.Watch(1, child, cgroup.Everything))
	time.Sleep(50 * time.Millisecond) // so that it is not there at the first look
	must(t, x.Create(child, cgroup.Limits{PIDs: 50}))
	c := joined(x, child, "read line")
	in, err := c.StdinPipe()
	must(t, err)
	must(t, c.Start())
	for w.Last(1).Got == 0 {
		time.Sleep(10 * time.Millisecond) // for its first sample
	}
	in.Close()
	_ = c.Wait()
	for !w.Over(1) {
		time.Sleep(time.Millisecond)
	}
	if f := w.Final(1); f.Exact != cgroup.Everything || f.Ended.IsZero() || f.Limits.PIDs != 50 {
		t.Errorf("%+v", f)
	}
	if err := x.Remove(child); err != nil {
		t.Error(err)
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
