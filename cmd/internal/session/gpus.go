package session

import (
	"slices"
	"strings"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container/gpu"
)

// makePlatform makes the nodes of the run. Nodes on this host get their GPUs, in the order of both, unless their
// cluster file names some.
func (p *Planning) makePlatform() (err error) {
	if row := RuntimeNamed(p.Set.Runtime); row.Engine != nil {
		if err := p.Set.assignGPUs(); err != nil {
			return err
		}
	}
	p.Platform, err = executor.PlatformOf(p.Set.Cluster)
	return exit.Or(exit.Input, err)
}

func (s *Settings) assignGPUs() error {
	var asked int64
	for i := range s.Cluster.Nodes {
		asked += s.Cluster.Nodes[i].GPUs
	}
	if asked == 0 {
		return nil
	}
	host := gpu.Open(s.CDI)
	free, total := host.GPUs(), len(host.GPUs())
	owner := map[string]string{} // by device: its node
	for i := range s.Cluster.Nodes {
		n := &s.Cluster.Nodes[i]
		for _, name := range n.Devices {
			key := host.Key(name)
			switch {
			case key == "" && total > 0:
				return exit.Hostf("node %s: this host has no GPU %s: it has %s", n.Name, name, strings.Join(free, ", "))
			case key == "":
				return exit.Hostf("node %s: this host has no GPU %s: %s", n.Name, name, host.WhyNone())
			case owner[key] != "":
				return exit.Inputf("node %s has the GPU %s, which is one of node %s already; tasks hold parts of one "+
					"by --gpus 0.5", n.Name, name, owner[key])
			}
			owner[key] = n.Name
		}
	}
	free = slices.DeleteFunc(free, func(name string) bool { return owner[host.Key(name)] != "" })
	for i := range s.Cluster.Nodes {
		n := &s.Cluster.Nodes[i]
		if n.Devices != nil || n.GPUs == 0 {
			continue
		}
		if n.GPUs > int64(len(free)) {
			why := ""
			if fault := host.Fault(); fault != "" || total == 0 {
				why = ": " + host.WhyNone()
			}
			return exit.Hostf("the cluster asks for %d GPUs, this host has %d%s", asked, total, why)
		}
		n.Devices, free = free[:n.GPUs:n.GPUs], free[n.GPUs:]
	}
	return nil
}

// noGPUs says why no node has a GPU.
func (s *Settings) noGPUs() string {
	if OnNodes(s.Runtime) {
		return "gantry does not give out GPUs of Slurm's nodes"
	}
	why := "key gpus of a cluster file gives nodes some"
	if !Capabilities(s.Runtime).Virtual {
		why += "; " + gpu.Open(s.CDI).WhyNone()
	}
	return why
}
