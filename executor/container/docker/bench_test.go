package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/blkiodev"
	types "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/emulate"
	"gantry/planner"
	"gantry/planner/unit"
)

// The two benchmarks do the same trivial task in a container with the same options at the same concurrency: by the bare
// Engine API, and by the runtime with its files, limits, counters and outputs. Compare containers/s, and the CPU time
// of this process per container:
//
//	go test ./executor/container/docker -run - -bench 'Engine|Runtime' -benchtime 200x

// ownCPU is the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, run func()) {
	b.ResetTimer()
	cpu, begun := ownCPU(), time.Now()
	run()
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "containers/s")
	b.ReportMetric(float64(ownCPU()-cpu)/1e6/float64(b.N), "cpu-ms/container")
}

func benchmarkIO(c *container.Config) {
	c.IO = []container.IOLimits{{ReadBps: 200 << 20, WriteBps: 200 << 20, ReadIOPS: 4000, WriteIOPS: 4000}}
}

func BenchmarkEngineLoop(b *testing.B) {
	for _, kind := range []string{"emulated", "real"} {
		b.Run(kind, func(b *testing.B) { engineLoop(b, kind == "real") })
	}
}

func engineLoop(b *testing.B, real bool) {
	cfg := settings(b, benchmarkIO)
	cli, err := docker.Connect(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	defer cli.Close()
	dev, onDisk, err := cgroup.DeviceOf(cfg.Dir)
	if err != nil {
		b.Fatal(err)
	}
	limit := func(rate uint64) []*blkiodev.ThrottleDevice {
		if !onDisk {
			return nil
		}
		return []*blkiodev.ThrottleDevice{{Path: dev.Path, Rate: rate}}
	}
	pids := int64(container.DefaultPIDs)
	image, err := docker.EnsureTaskImage(b.Context(), cli, cfg.TaskBinary)
	if err != nil {
		b.Fatal(err)
	}
	program, logs := []string{container.TaskProgram, "/spec.json"},
		types.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}}
	binds := []mount.Mount{{Type: mount.TypeBind, Source: cfg.Dir, Target: cfg.Dir}, {Type: mount.TypeBind,
		Source: cfg.Dir, Target: "/mnt", ReadOnly: true}}
	if err := (&emulate.Spec{}).Write(filepath.Join(cfg.Dir, "spec.json")); err != nil {
		b.Fatal(err)
	}
	if err := os.Chmod(cfg.Dir, 0o777); err != nil {
		b.Fatal(err)
	}
	if program[1] = filepath.Join(cfg.Dir, "spec.json"); real {
		image, program, logs = busybox, []string{"/bin/true"}, types.LogConfig{Type: "none"}
	}
	one := func(i int) error {
		ctx := context.Background()
		c, err := cli.ContainerCreate(ctx, &types.Config{Image: image, Entrypoint: program[:1], Cmd: program[1:],
			NetworkDisabled: true, User: "65534:65534", WorkingDir: cfg.Dir, Env: []string{"HOME=/tmp"},
			Labels: map[string]string{container.LabelRun: cfg.Run}},
			&types.HostConfig{ReadonlyRootfs: true, CapDrop: []string{"ALL"},
				SecurityOpt: []string{"no-new-privileges"},
				Tmpfs:       map[string]string{"/tmp": "rw,nosuid,nodev,size=64m,mode=1777"}, LogConfig: logs,
				Mounts: binds,
				Resources: types.Resources{PidsLimit: &pids, CPUPeriod: 20000, CPUQuota: 20000, Memory: 64 << 20,
					MemorySwap:         64 << 20,
					BlkioDeviceReadBps: limit(200 << 20), BlkioDeviceWriteBps: limit(200 << 20),
					BlkioDeviceReadIOps: limit(4000), BlkioDeviceWriteIOps: limit(4000)}},
			nil, nil, "gantry-"+cfg.Run+"-b"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		answer, failure := cli.ContainerWait(ctx, c.ID, types.WaitConditionNextExit)
		if err := cli.ContainerStart(ctx, c.ID, types.StartOptions{}); err != nil {
			return err
		}
		select {
		case <-answer:
		case err := <-failure:
			return err
		}
		return cli.ContainerRemove(ctx, c.ID, types.RemoveOptions{})
	}
	report(b, func() {
		var wg sync.WaitGroup
		queue := make(chan int)
		for range executor.Starts(runtime.NumCPU()) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range queue {
					if err := one(i); err != nil {
						b.Error(err)
					}
				}
			}()
		}
		for i := range b.N {
			queue <- i
		}
		close(queue)
		wg.Wait()
	})
}

func BenchmarkRuntime(b *testing.B) {
	for _, kind := range []string{"emulated", "real"} {
		b.Run(kind, func(b *testing.B) {
			r := newRig(b, benchmarkIO)
			inexact := 0
			report(b, func() {
				running := 0
				for sent, ended := 0, 0; ended < b.N; {
					for ; sent < b.N && running < executor.Starts(runtime.NumCPU()); sent++ {
						s := r.emulated()
						if kind == "real" {
							s.Command, s.Image = []string{"true"}, busybox
						}
						s.Name = fmt.Sprint(sent)
						r.must(r.Start(r.ctx, executor.Launch{Attempt: planner.AttemptID(sent), Try: 1,
							Hold:   unit.Vector{unit.CPU: 1000, unit.Memory: 64 << 20},
							Queued: r.Now(), Spec: s}))
						running++
					}
					bodies, err := r.Next(r.ctx, unit.Never)
					r.must(err)
					for _, x := range bodies {
						if x, ok := x.(*planner.AttemptExited); ok {
							r.wants(x, planner.OK)
							if x.Usage.Missing != 0 {
								inexact++
							}
							r.must(r.Forget(r.ctx, x.Attempt))
							running--
							ended++
						}
					}
				}
				r.must(r.Close())
			})
			b.ReportMetric(100*float64(inexact)/float64(b.N), "%inexact")
		})
	}
}
