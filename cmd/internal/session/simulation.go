package session

import (
	"gantry/executor"
	"gantry/executor/emulate"
	"gantry/executor/sim"
	"gantry/planner"
)

// MakesContainers selects the runtimes that make containers on this host.
func MakesContainers(c *executor.Capabilities) bool { return RuntimeNamed(c.Name).Engine != nil }

// simulation is the configuration of a simulation of the run.
func (s *Session) simulation(start planner.Time) sim.Config {
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
