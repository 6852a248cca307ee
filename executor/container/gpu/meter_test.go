package gpu_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor/container/gpu"
)

// fake puts a nvidia-smi into the PATH that runs a script, with $D for its directory. Each start adds the number of the
// process to the file started there.
func fake(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Cleanup(func() { // the last one started may still write
		eventually(t, "the directory of nvidia-smi goes", func() bool { return os.RemoveAll(dir) == nil })
	})
	text := "#!/bin/sh\nD=" + dir + "\necho \"$*\" >$D/args\necho $$ >>$D/started\n" + script
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func eventually(t *testing.T, fault string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(fault)
		}
	}
}

func lines(dir, file string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(text))
}

// told writes measurements of some devices once nvidia-smi has told of them a few times more.
func told(m *gpu.Meter, dir string, names ...string) string {
	u, before := m.Begin(names), len(lines(dir, "told"))
	began := time.Now()
	for until := began.Add(10 * time.Second); len(lines(dir, "told")) < before+5 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	busy, memory := u.End(time.Time{})
	text := "time not measured"
	if busy != nil {
		text = fmt.Sprintf("busy %.0f %%", 100*busy.Seconds()/time.Since(began).Seconds())
	}
	if memory == nil {
		return text + ", memory not measured"
	}
	return text + fmt.Sprintf(", %d MiB", *memory>>20)
}

func TestUsesOfGPUsAreMeasured(t *testing.T) {
	dir := fake(t, `while echo "GPU-aa-0, 0, 50, 100"; do
echo "GPU-bb-1, 1, 100, 30"
echo "GPU-cc-2, 2, [N/A], 7"
echo "GPU-dd-3, 3, 20, [N/A]"
echo "GPU-ee-4, 4, 101, 99999999999"
echo "an error, of, the, driver"
echo x >>$D/told
sleep 0.1
done`)
	m := gpu.NewMeter(t.Context())
	for names, want := range map[string]string{
		"nvidia.com/gpu=0":                               "busy 50 %, 100 MiB",
		"nvidia.com/gpu=gpu0":                            "busy 50 %, 100 MiB",
		"nvidia.com/gpu=GPU-bb-1":                        "busy 100 %, 30 MiB",
		"nvidia.com/gpu=0 nvidia.com/gpu=1":              "busy 150 %, 130 MiB",
		"nvidia.com/gpu=2":                               "time not measured, 7 MiB",
		"nvidia.com/gpu=3":                               "busy 20 %, memory not measured",
		"nvidia.com/gpu=2 nvidia.com/gpu=3":              "time not measured, memory not measured",
		"nvidia.com/gpu=4":                               "time not measured, memory not measured",
		"nvidia.com/gpu=0:1":                             "time not measured, memory not measured",
		"nvidia.com/gpu=MIG-aa":                          "time not measured, memory not measured",
		"nvidia.com/gpu=all":                             "time not measured, memory not measured",
		"amd.com/gpu=0":                                  "time not measured, memory not measured",
		"nvidia.com/gpu=0 nvidia.com/gpu=0:1":            "time not measured, memory not measured",
		"example.com/gpu=nvidia.com/gpu=0 nvidia.com/g=": "time not measured, memory not measured",
	} {
		var got string
		eventually(t, names, func() bool { // the host may be slow
			got = told(m, dir, strings.Fields(names)...)
			return got == want || !strings.HasPrefix(want, "busy")
		})
		if got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
	if n := len(lines(dir, "started")); n != 1 {
		t.Errorf("nvidia-smi was started %d times", n)
	}
	if got := strings.Join(lines(dir, "args"), " "); got != "--query-gpu=uuid,index,utilization.gpu,memory.used "+
		"--format=csv,noheader,nounits -lms 500" {
		t.Errorf("nvidia-smi was asked %s", got)
	}
}

// Whatever nvidia-smi does, nothing waits for it. Another use starts it again once it has ended.
func TestNvidiaSmiMayFail(t *testing.T) {
	for name, script := range map[string]string{
		"ends":    "exit 9",
		"hangs":   "sleep 1000",
		"rubbish": "while echo 'No devices were found'; do :; done",
		"no line": "while printf 'GPU-aa-0, 0, 50, 100, '; do :; done",
		"deaf":    "trap '' TERM INT HUP; while :; do sleep 1000; done",
	} {
		t.Run(name, func(t *testing.T) {
			dir := fake(t, script)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			m := gpu.NewMeter(ctx)
			u := m.Begin([]string{"nvidia.com/gpu=0"})
			eventually(t, "it starts", func() bool { return len(lines(dir, "started")) == 1 })
			if busy, memory := u.End(time.Time{}); busy != nil || memory != nil {
				t.Errorf("it measured %v, %v", busy, memory)
			}
			if name == "hangs" || name == "deaf" {
				end()
			} else {
				eventually(t, "it starts again", func() bool {
					m.Begin(nil).End(time.Time{})
					return len(lines(dir, "started")) > 1
				})
			}
			var pid int
			fmt.Sscan(lines(dir, "started")[0], &pid)
			eventually(t, "it goes with all that it started", func() bool {
				return syscall.Kill(-pid, 0) == syscall.ESRCH
			})
		})
	}
}

func TestWithoutNvidiaSmiNothingIsMeasured(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	u := gpu.NewMeter(t.Context()).Begin([]string{"nvidia.com/gpu=0"})
	if busy, memory := u.End(time.Time{}); busy != nil || memory != nil {
		t.Errorf("it measured %v, %v", busy, memory)
	}
}
