package allocation_test

import (
	"bufio"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor/container/slurm/allocation"
	"gantry/executor/container/slurm/slurmtest"
)

// attach uses an allocation that it requests.
func attach(t *testing.T, c *slurmtest.Cluster, options ...string) *allocation.Allocation {
	t.Helper()
	a, err := allocation.Attach(t.Context(), c.Allocate(t, options...))
	must(t, err)
	return a
}

// cat starts a step that prints what it reads, and waits until it does.
func cat(t *testing.T, a *allocation.Allocation, node, name string) *allocation.Running {
	t.Helper()
	r, err := a.StartStep(t.Context(), allocation.StepSpec{Node: node, CPUs: 1, Name: name, Argv: []string{"cat"}})
	must(t, err)
	echo(t, r)
	return r
}

func echo(t *testing.T, r *allocation.Running) {
	t.Helper()
	if _, err := r.Stdin().Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r.Stdout()).ReadString('\n'); line != "hello\n" {
		t.Fatalf("the step printed %q, %v; srun: %v", line, err, r.Wait())
	}
}

// One cluster for all: each test leaves it as it was.
func TestWithSlurm(t *testing.T) {
	slurmtest.Long(t)
	c := slurmtest.Up(t)
	idle := func() bool {
		return c.Command(t, "squeue", "-h", "-o", "%A") == "" &&
			c.Command(t, "sinfo", "-h", "-o", "%D", "-t", "idle") == "4"
	}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, f)
		if err := exec.Command("scancel", "--user=root").Run(); err != nil {
			t.Log(err)
		}
		slurmtest.Eventually(t, "all nodes are idle after "+name, idle)
	}

	run("steps", func(t *testing.T) {
		a := attach(t, c, "--nodes=2", "--time=60")
		nodes := a.Nodes()
		if len(nodes) != 2 || !nodes[0].Up || !nodes[1].Up {
			t.Fatalf("nodes %v", nodes)
		}
		r := cat(t, a, nodes[1].Name, "step|of a")
		steps, err := a.Steps(t.Context())
		want := []allocation.Step{{ID: a.ID() + ".0", Name: "step|of a", Node: nodes[1].Name}}
		if err != nil || !slices.Equal(steps, want) {
			t.Errorf("steps %v, %v, want %v", steps, err, want)
		}
		// A second view of the same allocation has the same, and ends the step of the first.
		b, err := allocation.Attach(t.Context(), a.ID())
		must(t, err)
		if err := b.CancelStep(t.Context(), steps[0].ID, "TERM"); err != nil {
			t.Error(err)
		}
		if err := r.Wait(); err == nil || !strings.Contains(err.Error(), "Terminated") {
			t.Errorf("srun: %v, want that the step was terminated", err)
		}
		slurmtest.Eventually(t, "no step is left", func() bool {
			steps, err := b.Steps(t.Context())
			return err == nil && len(steps) == 0
		})
		if err := b.CancelStep(t.Context(), steps[0].ID, ""); err != nil {
			t.Errorf("cancel a step that has ended: %v", err)
		}
		c.Command(t, "scancel", a.ID())
		_, err = allocation.Attach(t.Context(), a.ID())
		if err == nil || !strings.Contains(err.Error(), "cannot be used") {
			t.Errorf("an allocation that was given back: %v", err)
		}
	})

	run("another's", func(t *testing.T) {
		id := c.Command(t, "sbatch", "--parsable", "--uid=nobody", "--chdir=/", "--output=/dev/null",
			"--wrap=sleep 300")
		defer c.Command(t, "scancel", id)
		_, err := allocation.Attach(t.Context(), id)
		if err == nil || !strings.Contains(err.Error(), "allocation "+id+" is not yours: it belongs to nobody") {
			t.Errorf("%v", err)
		}
		if _, err := allocation.Attach(t.Context(), "999"); err == nil {
			t.Error("an allocation that never was: no error")
		}
	})

	run("time limit", func(t *testing.T) {
		a := attach(t, c, "--nodes=1", "--time=1")
		r := cat(t, a, a.Nodes()[0].Name, "long")
		if err := r.Wait(); err == nil { // the wall clock has to come to it, a minute or two
			t.Error("the step ended well")
		}
		slurmtest.Eventually(t, "the allocation is over", func() bool {
			ch, err := a.Look(t.Context())
			return err == nil && ch.Over && ch.Why == "it reached its time limit"
		})
	})

	t.Run("munge", func(t *testing.T) {
		a := attach(t, c, "--nodes=1")
		c.KillMunge(t)
		begun := time.Now()
		r, err := a.StartStep(t.Context(), allocation.StepSpec{Node: a.Nodes()[0].Name, CPUs: 1, Name: "cat",
			Argv: []string{"cat"}})
		must(t, err)
		if err = r.Wait(); err == nil || !strings.Contains(err.Error(), "munge does not run here") {
			t.Errorf("without munge: %v after %v", err, time.Since(begun))
		}
	})
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
