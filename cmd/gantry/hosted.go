package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim"
	"gantry/executor/sim/hostmodel"
	"gantry/planner"
	"gantry/sqlite"
)

// Values of --host-model beside names of files.
const (
	hostModelNone = "none"
	hostModelThis = "this"
)

func hostModelFlag() cli.Flag {
	return &cli.StringFlag{Name: "host-model", Usage: "take how containers start, run and end on a host from " +
		"`MODEL`: this (what gantry calibrate measured here), a file with a model, or none (default: this, if it was " +
		"measured, the cluster is one that this host can be, and --startup is not given)"}
}

// readHostModel finds the host model of a run or a simulation.
func readHostModel(c *cli.Context, s *settings) error {
	s.StartupGiven = c.IsSet("startup")
	switch name := c.String("host-model"); name {
	case hostModelNone:
		return nil
	case "":
		if s.StartupGiven || checkHost(s.Cluster, c.Bool("oversubscribe")) != nil {
			return nil
		}
		m, err := storedHostModel(c, s)
		if err != nil && !errors.Is(err, hostmodel.ErrNone) {
			term.New(c.Bool("quiet") || c.Bool("json")).Warn("the host model is not used: %v", err)
		}
		s.Host = m
		return nil
	case hostModelThis:
		m, err := storedHostModel(c, s)
		if err != nil {
			return exit.Inputf("--host-model this: %w", err)
		}
		s.Host = m
		return nil
	default:
		text, err := readText(name)
		if err != nil {
			return exit.Inputf("--host-model: %w", err)
		}
		m, err := hostmodel.Decode(text)
		if err != nil {
			return exit.Inputf("--host-model %s: %w", name, err)
		}
		if f := hostFacts(); !runtimeOf(s.Runtime).Virtual {
			if err := m.Fits(hostmodel.Host{Name: f.Name, Kernel: f.Release, Cores: f.Cores,
				Runtime: s.Runtime}); err != nil {
				return exit.Inputf("--host-model %s: %w", name, err)
			}
		}
		s.Host = m
		return nil
	}
}

// storedHostModel is the model that the log has of this host with the runtime of the run, or of the run that is
// simulated; else with the one that runs usually take, or with any other if that was never measured.
func storedHostModel(c *cli.Context, s *settings) (*hostmodel.Model, error) {
	path := filepath.Join(c.String("dir"), logName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, hostmodel.ErrNone
	}
	db, err := sqlite.Open(path, sqlite.ReadOnly)
	if err != nil {
		return nil, hostmodel.ErrNone // of an older format, for one: whoever needs it says so
	}
	defer db.Close()
	names := []string{s.Runtime}
	if runtimeOf(s.Runtime).Virtual {
		names = append([]string{usualRuntime.Name}, runtimeNames(makesContainers)...)
		if run := c.String("measured"); run != "" {
			if info, err := db.Info(c.Context, run); err == nil { // else whoever needs it says so
				names = []string{info.Runtime}
			}
		}
	}
	dir, err := filepath.Abs(c.String("dir"))
	if err != nil {
		return nil, err
	}
	var m *hostmodel.Model
	for _, name := range names {
		if m, _, err = findHostModel(c.Context, db, name, dir); !errors.Is(err, hostmodel.ErrNone) {
			break
		}
	}
	return m, err
}

// makesContainers selects the runtimes that make containers on this host.
func makesContainers(c *executor.Capabilities) bool { return rowOf(c.Name).engine != nil }

// simulation is the configuration of a simulation of the run.
func (s *session) simulation(start planner.Time) sim.Config {
	cfg := sim.Config{Platform: s.platform, Start: start, Startup: s.set.Startup, Measured: s.measured,
		Turns: s.turns}
	if s.set.Ahead {
		cfg.Ahead = s.set.starts()
	}
	if s.set.Host == nil || s.ideal {
		return cfg
	}
	cfg.Host, cfg.Starts, cfg.Noise, cfg.Seed = s.set.Host, s.set.starts(), s.set.Noise, s.set.draws()
	for _, n := range s.set.Cluster.Nodes {
		cfg.IO = append(cfg.IO, emulate.Limits{ReadBps: n.ReadBps, WriteBps: n.WriteBps, ReadIOPS: n.ReadIOPS,
			WriteIOPS: n.WriteIOPS})
	}
	return cfg
}
