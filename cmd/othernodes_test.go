package cmd

import (
	"strings"
	"testing"
)

// A server that is started again with another cluster file follows it where the run can, and says where it cannot.
func TestAServerFollowsAnotherClusterFile(t *testing.T) {
	c := cliTest{t, t.TempDir()}
	dir := t.TempDir()
	before := c.write("before.yaml", "nodes:\n  - {name: a, cores: 4, memory: 4GB}\n"+
		"  - {name: b, cores: 4, memory: 4GB}\n  - {name: c, cores: 2, memory: 4GB}\n")
	after := c.write("after.yaml", "nodes:\n  - {name: a, cores: 2, memory: 4GB}\n"+
		"  - {name: c, cores: 4, memory: 4GB}\n  - {name: d, cores: 2, memory: 4GB}\n")
	s := serveIn(t, dir, "--runtime", "null", "--cluster", before)
	s.submit("--release", "2h", montage)
	s.kill()
	s = serveIn(t, dir, "--runtime", "null", "--cluster", after)
	nodes := expect(t, exitOK, nil, "node", "--dir", dir)
	for name, want := range map[string]string{"a": "2", "b": "drained", "c": "2"} {
		found := false
		for line := range strings.Lines(nodes) {
			f := strings.Fields(line)
			found = found || len(f) > 1 && f[0] == name && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("node %s does not show %s:\n%s", name, want, nodes)
		}
	}
	flow := s.submit(montage)
	expect(t, exitOK, []string{"25 of 25 tasks done"}, "wait", "--dir", dir, flow)
	expect(t, exitOK, nil, "cancel", "--dir", dir, "1")
	expect(t, exitOK, nil, "drain", "--dir", dir)
	s.ends(exitOK)
	for _, want := range []string{"node b is not there any more", "node a has 2 cores, 4 GB of memory",
		"node c is larger there", "node d is new"} {
		if !strings.Contains(s.err.String(), want) {
			t.Errorf("the server does not say %q:\n%s", want, s.err.String())
		}
	}
}
