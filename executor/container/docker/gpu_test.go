package docker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	types "github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/container/gpu"
	"gantry/planner"
	"gantry/planner/unit"
)

// madeUp describes three GPUs that nobody makes, copies of the null device, for node n0. Each has an alias, and all
// have one together. Their file ends with more.
func madeUp(t *testing.T, c *container.Config, more string) {
	t.Helper()
	dir := t.TempDir()
	var devices []string
	all := ""
	for i := range 3 {
		node := filepath.Join(dir, fmt.Sprint("node", i))
		if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("needs the right to make devices: %v", err)
		}
		must(t, os.Chmod(node, 0o666))
		edit := fmt.Sprintf(`{"path":"/dev/madeup%d","hostPath":%q}`, i, node)
		all = strings.TrimPrefix(all+","+edit, ",")
		for _, name := range []string{fmt.Sprint(i), fmt.Sprint("GPU-", i)} {
			devices = append(devices, fmt.Sprintf(`{"name":%q,"containerEdits":{"deviceNodes":[%s],
				"env":["MADEUP_%d=1"]}}`, name, edit, i))
		}
	}
	devices = append(devices, fmt.Sprintf(`{"name":"all","containerEdits":{"deviceNodes":[%s]}}`, all))
	write(t, filepath.Join(dir, "madeup.json"), fmt.Sprintf(`{"cdiVersion":"0.7.0","kind":"example.com/gpu",
		"devices":[%s],"containerEdits":{"env":["VISIBLE=void"],"additionalGids":[4321],"mounts":[{"hostPath":%q,
		"containerPath":"/opt/madeup/lib.so","options":["ro","bind","nosuid"]}]%s}}`, strings.Join(devices, ","),
		filepath.Join(dir, "lib"), more))
	write(t, filepath.Join(dir, "lib"), "library\n")
	write(t, filepath.Join(dir, "other.yaml"), "cdiVersion: 0.6.0\nkind: example.com/nic\n"+
		"devices: [{name: '0', containerEdits: {env: [A=b]}}]\n")
	c.CDI = []string{dir}
	n := &c.Platform.Nodes[0]
	n.Devices = gpu.Open(c.CDI).GPUs()
	n.Capacity[unit.GPU] = int64(len(n.Devices)) * unit.WholeGPU
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

func holding(set planner.Devices) func(*executor.Launch) {
	return func(l *executor.Launch) { l.GPUs = set }
}

func TestAContainerHasItsGPUsAndNoOther(t *testing.T) {
	if onEach(t, TestAContainerHasItsGPUsAndNoOther) {
		return
	}
	r := newRig(t, func(c *container.Config) { madeUp(t, c, "") })
	if got := strings.Join(r.config.Platform.Nodes[0].Devices, " "); got != "example.com/gpu=0 example.com/gpu=1 "+
		"example.com/gpu=2" {
		t.Fatalf("GPUs %q", got)
	}
	for set, want := range map[planner.Devices]string{
		0b000: "own\n",
		0b001: "madeup0\nMADEUP_0=1\nvoid library 4321\n",
		0b110: "madeup1\nmadeup2\nMADEUP_1=1\nMADEUP_2=1\nvoid library 4321\n",
	} {
		spec := r.sh(`ls /dev | grep madeup; env | grep MADEUP | sort
for d in /dev/madeup*; do [ ! -e $d ] || { echo x >$d && cat $d; } || exit 1; done
[ -e /opt/madeup ] || { echo $VISIBLE; exit 0; }
echo $VISIBLE $(cat /opt/madeup/lib.so) $(id -G | tr ' ' '\n' | grep 4321)
echo x 2>/dev/null >>/opt/madeup/lib.so && exit 3; true`)
		spec.Env = []string{"VISIBLE=own"}
		r.wants(r.exit(r.launch(spec, holding(set))), planner.OK)
		if got := r.read(filepath.Join(r.work(spec), ".command.out")); got != want {
			t.Errorf("with GPUs %b a program sees %q, want %q", set, got, want)
		}
	}
}

// Hooks of devices are run by an OCI runtime, and by an engine that knows CDI itself. Another is refused if a task
// holds a GPU; else only a task that gets one fails.
func TestHooksOfGPUs(t *testing.T) {
	if onEach(t, TestHooksOfGPUs) {
		return
	}
	seen := filepath.Join(t.TempDir(), "state")
	hooked := func(c *container.Config) {
		madeUp(t, c, fmt.Sprintf(`,"hooks":[{"hookName":"createContainer","path":"/bin/sh",
			"args":["sh","-c","cat >%s"]}]`, seen))
	}
	if !daemonless(t) {
		cfg := settings(t, hooked)
		cfg.GPUs = true
		_, err := docker.New(t.Context(), "", cfg)
		if !errors.Is(err, container.ErrUnusable) || !strings.Contains(err.Error(), "/bin/sh") ||
			!strings.Contains(err.Error(), "--runtime oci") {
			t.Errorf("hooks are refused by %v", err)
		}
	}
	r := newRig(t, hooked)
	r.wants(r.exit(r.launch(r.sh("true"), nil)), planner.OK)
	x := r.exit(r.launch(r.sh("true"), holding(1)))
	if !daemonless(t) {
		if r.wants(x, planner.HostError, "hooks (/bin/sh)"); !x.Final {
			t.Error("it is tried again")
		}
		return
	}
	r.wants(x, planner.OK)
	if state := r.read(seen); !strings.Contains(state, `"bundle"`) {
		t.Errorf("the hook was given %q", state)
	}
}

func TestGPUsThatTasksCouldNotHaveAreRefused(t *testing.T) {
	if onOne(t, TestGPUsThatTasksCouldNotHaveAreRefused) {
		return
	}
	for fault, c := range map[string]struct {
		spoil func(c *container.Config)
		says  string
	}{
		"a device is gone": {func(c *container.Config) { os.Remove(filepath.Join(c.CDI[0], "node1")) },
			"failed to stat CDI host device"},
		"the file is gone": {func(c *container.Config) { os.Remove(filepath.Join(c.CDI[0], "madeup.json")) },
			"device example.com/gpu=0 is not there: no file in "},
		"the file is no CDI": {func(c *container.Config) {
			write(t, filepath.Join(c.CDI[0], "madeup.json"), `{"kind":"example.com/gpu","devices":5}`)
		}, "madeup.json"},
		"another version": {func(c *container.Config) {
			write(t, filepath.Join(c.CDI[0], "madeup.json"), `{"cdiVersion":"99.0.0","kind":"example.com/gpu"}`)
		}, "99.0.0"},
	} {
		cfg := settings(t, func(c *container.Config) { madeUp(t, c, "") })
		c.spoil(&cfg)
		cfg.GPUs = true
		e := (&rig{t: t, config: cfg}).engine()
		if _, err := container.New(t.Context(), e, cfg); !errors.Is(err, container.ErrUnusable) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", fault, err, c.says)
		}
	}
}

// An engine that knows CDI gets the names of devices with hooks. Containers take no runtime that gives GPUs on its own.
func TestAnEngineWithCDIIsGivenNames(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	var made struct{ HostConfig types.HostConfig }
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		switch body, _ := io.ReadAll(r.Body); {
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"OSType":"linux","CDISpecDirs":["/etc/cdi"],"DefaultRuntime":"nvidia",
				"Runtimes":{"runc":{}}}`)
		case strings.HasSuffix(r.URL.Path, "/images/i/json"):
			fmt.Fprint(w, "{}")
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			if err := json.Unmarshal(body, &made); err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, `{"Id":"made"}`)
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	e, err := docker.Open(t.Context(), "unix://"+listener.Addr().String(), "none", 0)
	must(t, err)
	defer e.Close()
	host, err := e.Host(t.Context())
	if os.Geteuid() == 0 && err != nil || !host.Hooks {
		t.Fatalf("%+v, %v", host, err)
	}
	s := &container.Spec{Image: "i", Args: []string{"a"}, GPUs: []string{"nvidia.com/gpu=1"},
		Edits: &gpu.Edits{Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook"}}}}
	if _, err := e.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h := &made.HostConfig
	if len(h.DeviceRequests) != 1 || h.DeviceRequests[0].Driver != "cdi" || h.Runtime != "runc" ||
		strings.Join(h.DeviceRequests[0].DeviceIDs, " ") != "nvidia.com/gpu=1" || len(h.Devices) != 0 {
		t.Errorf("the engine is asked for %+v, runtime %q", h.DeviceRequests, h.Runtime)
	}
	// A specification without an image stays so: it is asked for again if the answer is lost.
	s = &container.Spec{Args: []string{"a"}}
	if _, err := e.Create(t.Context(), s); err != nil || s.Image != "" {
		t.Errorf("an emulated task has the image %q, %v", s.Image, err)
	}
}
