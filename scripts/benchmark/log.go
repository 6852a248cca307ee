package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"gantry/sqlite"
	"gantry/sqlite/logtest"
	"gantry/trace"
)

// read reads workflows of 100,000 tasks from files, in this process. It goes by CPU time: that of the collector counts
// too, and other programs do not.
func (b *bench) read() error {
	const tasks = 100_000
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as gantry has it
	dax, err := b.layered(tasks)
	if err != nil {
		return err
	}
	wf, err := writeWfFormat(dax, filepath.Join(b.dir, "read.json"))
	if err != nil {
		return err
	}
	fmt.Printf("reading workflows of %d tasks\n", tasks)
	for _, f := range []struct{ what, path string }{{"DAX", dax}, {"WfFormat", wf}} {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		m, err := b.repeat(func() (cost, error) {
			began, before := time.Now(), ownCPU()
			w, _, err := trace.Open(f.path, trace.ReadOptions{})
			if err == nil && len(w.Tasks) != tasks {
				err = fmt.Errorf("%s has %d tasks", f.path, len(w.Tasks))
			}
			return cost{wall: time.Since(began), cpu: ownCPU() - before}, err
		})
		if err != nil {
			return err
		}
		size := float64(info.Size()) / 1e6
		fmt.Printf("  %s, %.0f MB: %.0f MB/s of CPU time, %.0f MB/s\n", f.what, size, size/m[0].cpu.Seconds(),
			size/m[0].wall.Seconds())
		verdict(f.what+": CPU time for 100 MB", 100*m[0].cpu.Seconds()/size, 1, "s")
	}
	return nil
}

// writeWfFormat writes a workflow as WfFormat to a path, which it returns.
func writeWfFormat(from, path string) (string, error) {
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	w, _, err := trace.Open(from, trace.ReadOptions{})
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := trace.WriteWfFormat(&text, w); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, text.Bytes(), 0o644)
}

// log asks a log of many runs, half of them simulations and half real runs on the null runtime. One of each kind is
// written by gantry; the others are copies.
func (b *bench) log() error {
	const tasks = 10_000
	runs := max(2, b.attempts/tasks)
	dax, err := b.layered(tasks)
	if err != nil {
		return err
	}
	cluster, err := b.cluster(16, 4)
	if err != nil {
		return err
	}
	home := filepath.Join(b.dir, "log")
	gantry := func(args ...string) (cost, error) {
		return measure(exec.Command(b.gantry, append([]string{args[0], "--dir", home}, args[1:]...)...))
	}
	for _, args := range [][]string{
		{"run", "--quiet", "--name", "real", "--runtime", "null", "--cluster", cluster, dax},
		{"simulate", "--quiet", "--name", "simulated", "--policy", "cpp", "--cluster", cluster, dax}} {
		if _, err := gantry(args...); err != nil {
			return err
		}
	}
	path := filepath.Join(home, sqlite.FileName)
	began := time.Now()
	if err := logtest.Multiply(context.Background(), path, runs/2); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Printf("a log of %d runs and %d attempts, %.1f GB (copied in %v)\n", runs/2*2, runs/2*2*tasks,
		float64(info.Size())/1e9, time.Since(began).Round(time.Second))
	middle := fmt.Sprint("-", runs/4)
	if runs < 8 {
		middle = ""
	}
	questions := [][]string{{"ls"}}
	for _, run := range []string{"real" + middle, "simulated" + middle} {
		questions = append(questions, []string{"show", run}, []string{"explain", run, "#5000"}, []string{"report", run},
			[]string{"report", "--policies", "none", "--html", filepath.Join(home, "page.html"), run})
	}
	questions = append(questions, []string{"report", "real" + middle, "simulated" + middle})
	for _, q := range questions {
		m, err := b.repeat(func() (cost, error) { return gantry(q...) })
		if err != nil {
			return err
		}
		what := strings.ReplaceAll(strings.Join(q, " "), home+"/", "")
		verdict(fmt.Sprintf("%s: wall time (%.2f s of CPU)", what, m[0].cpu.Seconds()), m[0].wall.Seconds(), 1, "s")
	}
	return os.RemoveAll(home)
}
