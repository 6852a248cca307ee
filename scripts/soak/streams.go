package main

import (
	"context"
	"errors"
	"fmt"
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
	"gantry/planner/policy"
	"gantry/planner/predict"
	"gantry/sqlite"
	"gantry/trace/scenario"
)

// policies take turns, a stream each.
var policies = []string{"cpp", "fdws", "gbf", "hr"}

const tasksPerWorkflow = 50 // on the null runtime, on average

// nullLoad is a closed system of random workflows, so that there is always something to do.
const nullLoad = `name: soak
seed: %d
count: %d
mix: [{generator: random, fraction: 1, tasks: 20..80}]
arrivals: {process: closed, population: 8}
tenants: [{name: alice, fraction: 2}, {name: bob, fraction: 1}]
`

const nullCluster = `name: soak
nodes: [{name: n, count: 8, cores: 8, speed: 1, memory: 64GB, group: g}]
links: [{from: g, to: g, bandwidth: 1000MB/s, latency: 1ms}]
`

// null runs streams with faults, one after the other in one log, until there were enough attempts.
func (o *options) null(ctx context.Context, m *meter) error {
	cluster, err := scenario.ReadCluster(strings.NewReader(nullCluster), "soak")
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(m.home, sqlite.FileName), sqlite.Durable)
	if err != nil {
		return err
	}
	defer db.Close()
	for k := 0; m.attempts < m.size; k++ {
		seed := o.seed + uint64(k)
		workflows := min(o.stream, m.size-m.attempts)/tasksPerWorkflow + 1
		err := stream{m: m, db: db, name: fmt.Sprintf("soak-%04d", k+1), runtime: &null.Capabilities,
			policy: policies[k%len(policies)], cluster: cluster, seed: seed,
			load: fmt.Sprintf(nullLoad, seed, workflows)}.run(ctx, func(p *planner.Platform,
			origin time.Time) (executor.Runtime, error) {
			return newFaulty(null.New(origin), p, seed), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dockerLoad mixes emulated tasks, which compute and write files, with programs.
const dockerLoad = `name: soak
seed: %d
count: %d
mix:
  - {generator: random, fraction: 1, tasks: 10}
  - {trace: words.json, inputs: inputs, fraction: 1}
arrivals: {process: closed, population: 8}
`

const dockerCluster = `name: soak
nodes: [{name: n, count: 2, cores: 4, speed: 1, memory: 1GB, read: 1000MB/s, write: 1000MB/s, group: g}]
links: [{from: g, to: g, bandwidth: 1000MB/s, latency: 0s}]
`

// docker runs streams in containers, one after the other in one log, until there were enough.
func (o *options) docker(ctx context.Context, m *meter) error {
	cluster, err := scenario.ReadCluster(strings.NewReader(dockerCluster), "soak")
	if err != nil {
		return err
	}
	executor.FillDisk(cluster)
	binary, err := docker.FindTaskBinary()
	if err != nil {
		return err
	}
	words, err := filepath.Abs(filepath.Join(o.examples, "words", "words.json"))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(m.home, sqlite.FileName), sqlite.Durable)
	if err != nil {
		return err
	}
	defer db.Close()
	for k := 0; m.attempts < m.size; k++ {
		if err := o.dockerRun(ctx, m, db, cluster, k, binary, filepath.Dir(words)); err != nil {
			return err
		}
	}
	return nil
}

// containersPerWorkflow is how many tasks a workflow of dockerLoad has, on average.
const containersPerWorkflow = 9.5

func (o *options) dockerRun(ctx context.Context, m *meter, db *sqlite.DB, cluster *scenario.Cluster, k int,
	binary, base string) error {
	m.run = fmt.Sprintf("soak-%04d", k+1)
	dir := filepath.Join(m.home, m.run)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	seed := o.seed + uint64(k)
	workflows := int(float64(min(o.run, m.size-m.attempts))/containersPerWorkflow) + 1
	s := stream{m: m, db: db, name: m.run, runtime: &docker.Capabilities,
		policy: policies[k%len(policies)], cluster: cluster, seed: seed, scale: 1e-4, base: base,
		load: fmt.Sprintf(dockerLoad, seed, workflows)}
	err := s.run(ctx, func(p *planner.Platform, origin time.Time) (executor.Runtime, error) {
		cfg := container.Config{Run: m.run, Dir: dir, Platform: p, Version: "soak", Seed: seed, Origin: origin,
			TaskBinary: binary,
			Warn: func(rule, message string) {
				if k == 0 {
					fmt.Println("docker: warning:", message)
				}
			}}
		for _, n := range cluster.Nodes {
			cfg.IO = append(cfg.IO, container.IOLimits{ReadBps: n.ReadBps, WriteBps: n.WriteBps, ReadIOPS: n.ReadIOPS,
				WriteIOPS: n.WriteIOPS})
		}
		return docker.New(ctx, "", cfg)
	})
	if left := m.controlGroups(); err == nil && left > 0 {
		err = fmt.Errorf("run %s leaves %d control groups", m.run, left)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// stream is one run.
type stream struct {
	m                  *meter
	db                 *sqlite.DB
	name, policy, load string
	runtime            *executor.Capabilities
	cluster            *scenario.Cluster
	seed               uint64
	scale              float64 // of times and sizes; 0: 1
	base               string  // directory of the traces that the load names
}

// run drives the engine as gantry run does.
func (s stream) run(ctx context.Context, make func(*planner.Platform, time.Time) (executor.Runtime,
	error)) (err error) {
	if s.scale == 0 {
		s.scale = 1
	}
	platform, err := executor.PlatformOf(s.cluster)
	if err != nil {
		return err
	}
	work, err := scenario.ReadWorkload(strings.NewReader(s.load), filepath.Join(s.base, "soak.yaml"))
	if err != nil {
		return err
	}
	loader := load.Loader{Platform: platform, TimeScale: s.scale}
	subs, err := loader.Workload(work, 0)
	if err != nil {
		return err
	}
	subs = loader.Order(subs)
	pol, err := policy.Parse(s.policy)
	if err != nil {
		return err
	}
	declared := &predict.Declared{}
	admit := &executor.Admitter{Platform: platform, TimeScale: s.scale, SizeScale: s.scale,
		SafeNames: s.runtime.Programs, Preempt: scenario.DefaultPreempt(), Declare: declared.Declare}
	started := time.Now()
	log, err := s.db.CreateRun(ctx, sqlite.RunInfo{Name: s.name, Runtime: s.runtime.Name, Policy: s.policy,
		Command: os.Args, Version: "soak", Started: started,
		Seed: int64(s.seed), TimeScale: s.scale, SizeScale: s.scale, Cluster: s.cluster, Platform: *platform})
	if err != nil {
		return err
	}
	defer log.Close()
	rt, err := make(platform, started)
	if err != nil {
		return err
	}
	engine := &executor.Engine{Runtime: rt, Store: log, Planner: planner.New(platform, planner.DefaultRetryRules(), pol,
		declared, s.seed), Admit: admit, Arrivals: subs, Watch: s.m.watch,
		Wall: func() time.Duration { return time.Since(started) }}
	_, err = engine.Run(ctx)
	if closing := rt.Close(); err == nil {
		err = closing
	}
	state := sqlite.Finished
	if s.m.failed {
		state = sqlite.Failed
	}
	if err != nil {
		state = sqlite.Interrupted
	}
	s.m.failed = false
	if e := log.Finish(context.WithoutCancel(ctx), state, 0); err == nil {
		err = e
	}
	if f, ok := rt.(*faulty); ok {
		s.m.outages += f.outages
	}
	return err
}
