package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/docker"
	"gantry/executor/experiment/load"
	"gantry/executor/null"
	"gantry/planner"
	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// policies take turns, a stream each.
var policies = []string{"cpp", "fdws", "gbf", "hr"}

// part is one kind of load, in streams: a stream is a run.
type part struct {
	name, about      string
	attempts, stream int // in all, and of a stream
	cluster          string
	load             string  // with the seed and the count left out
	base             string  // directory of the traces that it names
	tasks            float64 // of a workflow, on average
	scale            float64 // of times and sizes
	runtime          *executor.Capabilities
	open             func(ctx context.Context, cfg container.Config) (executor.Runtime, error)
}

// null is a closed system of random workflows, so that there is always something to do.
func (o *options) null() part {
	return part{name: "null", about: "attempts with faults on the null runtime", attempts: o.attempts, stream: o.stream,
		cluster: `name: soak
nodes: [{name: n, count: 8, cores: 8, speed: 1, memory: 64GB, group: g}]
links: [{from: g, to: g, bandwidth: 1000MB/s, latency: 1ms}]
`, load: `name: soak
seed: %d
count: %d
mix: [{generator: random, fraction: 1, tasks: 20..80}]
arrivals: {process: closed, population: 8}
tenants: [{name: alice, fraction: 2}, {name: bob, fraction: 1}]
`, tasks: 50, scale: 1, runtime: &null.Capabilities,
		open: func(_ context.Context, cfg container.Config) (executor.Runtime, error) {
			return &faulty{Runtime: null.New(cfg.Origin), random: rand.New(rand.NewPCG(cfg.Seed, 2)),
				nodes: cfg.Platform.Nodes, node: map[planner.AttemptID]planner.NodeID{}, gone: planner.None}, nil
		}}
}

// docker mixes emulated tasks, which compute and write files, with programs.
func (o *options) docker() part {
	return part{name: "docker", about: "containers", attempts: o.containers, stream: o.run, cluster: `name: soak
nodes: [{name: n, count: 2, cores: 4, speed: 1, memory: 1GB, read: 1000MB/s, write: 1000MB/s, group: g}]
links: [{from: g, to: g, bandwidth: 1000MB/s, latency: 0s}]
`, load: `name: soak
seed: %d
count: %d
mix:
  - {generator: random, fraction: 1, tasks: 10}
  - {trace: words.json, inputs: inputs, fraction: 1}
arrivals: {process: closed, population: 8}
`, base: filepath.Join(o.examples, "words"), tasks: 9.5, scale: 1e-4, runtime: &docker.Capabilities,
		open: func(ctx context.Context, cfg container.Config) (_ executor.Runtime, err error) {
			if cfg.TaskBinary, err = docker.FindTaskBinary(); err != nil {
				return nil, err
			}
			return docker.New(ctx, "", cfg)
		}}
}

// run runs streams, one after the other in one log, until there were enough attempts.
func (p *part) run(ctx context.Context, m *meter, seed uint64) error {
	cluster, err := scenario.ReadCluster(strings.NewReader(p.cluster), "soak")
	if err != nil {
		return err
	}
	executor.FillDisk(cluster)
	db, err := sqlite.Open(filepath.Join(m.home, sqlite.FileName), sqlite.Durable)
	if err != nil {
		return err
	}
	defer db.Close()
	for k := 0; m.attempts < p.attempts; k++ {
		name := fmt.Sprintf("soak-%04d", k+1)
		if p.runtime.Programs { // it has control groups
			m.run = name
		}
		dir := filepath.Join(m.home, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		info := sqlite.RunInfo{Name: name, Runtime: p.runtime.Name, Policy: policies[k%len(policies)],
			Command: os.Args, Version: "soak", Started: time.Now(), Seed: int64(seed) + int64(k), TimeScale: p.scale,
			SizeScale: p.scale, Cluster: cluster}
		err := p.once(ctx, m, db, info, dir)
		if left := m.controlGroups(); err == nil && left > 0 {
			err = fmt.Errorf("run %s leaves %d control groups", name, left)
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return nil
}

// once runs one stream as gantry run does.
func (p *part) once(ctx context.Context, m *meter, db *sqlite.DB, info sqlite.RunInfo, dir string) (err error) {
	platform, err := executor.PlatformOf(info.Cluster)
	if err != nil {
		return err
	}
	info.Platform = *platform
	workflows := int(float64(min(p.stream, p.attempts-m.attempts))/p.tasks) + 1
	work, err := scenario.ReadWorkload(strings.NewReader(fmt.Sprintf(p.load, info.Seed, workflows)),
		filepath.Join(p.base, "soak.yaml"))
	if err != nil {
		return err
	}
	loader := load.Loader{Platform: platform, TimeScale: p.scale}
	subs, err := loader.Workload(work, 0)
	if err != nil {
		return err
	}
	engine, err := measure.Engine(&info)
	if err != nil {
		return err
	}
	log, err := db.CreateRun(ctx, info)
	if err != nil {
		return err
	}
	defer log.Close()
	cfg := container.Config{Run: info.Name, Dir: dir, Platform: platform, Version: "soak", Seed: uint64(info.Seed),
		Origin: info.Started, Warn: func(_, message string) { fmt.Println(p.name+": warning:", message) }}
	for _, n := range info.Cluster.Nodes {
		cfg.IO = append(cfg.IO, container.IOLimits{ReadBps: n.ReadBps, WriteBps: n.WriteBps, ReadIOPS: n.ReadIOPS,
			WriteIOPS: n.WriteIOPS})
	}
	rt, err := p.open(ctx, cfg)
	if err != nil {
		return err
	}
	engine.Runtime, engine.Store, engine.Arrivals, engine.Watch = rt, log, loader.Order(subs), m.watch
	engine.Admit.SafeNames = p.runtime.Programs
	engine.Wall = func() time.Duration { return time.Since(info.Started) }
	_, err = engine.Run(ctx)
	err = errors.Join(err, rt.Close())
	state := sqlite.Finished
	if m.failed {
		state, m.failed = sqlite.Failed, false
	}
	if err != nil {
		state = sqlite.Interrupted
	}
	if f, ok := rt.(*faulty); ok {
		m.outages += f.outages
	}
	return errors.Join(err, log.Finish(context.WithoutCancel(ctx), state, 0))
}
