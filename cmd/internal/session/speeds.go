package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/allocation"
)

// speedsFile is where the speeds of nodes of Slurm lie below --dir, by name.
func speedsFile(home string) string { return filepath.Join(home, "slurm-speeds.json") }

// readSpeeds returns the speeds that were measured; none if none were.
func readSpeeds(home string) (map[string]float64, error) {
	text, err := os.ReadFile(speedsFile(home))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	speeds := map[string]float64{}
	if err == nil {
		err = json.Unmarshal(text, &speeds)
	}
	if err != nil {
		return nil, fmt.Errorf("speeds of nodes: %s: %w (remove it; gantry calibrate --runtime slurm measures again)",
			speedsFile(home), err)
	}
	for name, x := range speeds {
		if !(x > 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("speeds of nodes: %s: node %s has speed %v", speedsFile(home), name, x)
		}
	}
	return speeds, nil
}

// MeasureNodes measures the cores of the nodes of an allocation by a job step on each, and keeps their speeds.
func MeasureNodes(ctx context.Context, home string, set *Settings, job string,
	view *term.Progress) (reports []slurm.Report, measured map[string]float64, err error) {
	speeds, err := readSpeeds(home)
	if err != nil {
		return nil, nil, exit.With(exit.Host, err)
	}
	n, err := AskNodes(ctx, home, set, job, view, "--speed")
	if err != nil {
		return nil, nil, err
	}
	defer n.Close()
	for _, node := range n.Allocation.Nodes() {
		n.Check.Nodes = append(n.Check.Nodes, node.Name)
	}
	if reports, err = n.Check.Ask(ctx, n.Allocation); err != nil {
		return nil, nil, slurmError(err)
	}
	measured = relative(reports)
	if speeds == nil {
		speeds = map[string]float64{}
	}
	maps.Copy(speeds, measured)
	text, err := json.MarshalIndent(speeds, "", "  ")
	if err == nil {
		err = os.WriteFile(speedsFile(home), append(text, '\n'), 0o644)
	}
	if err != nil {
		return nil, nil, exit.With(exit.Host, err)
	}
	GiveToCaller(speedsFile(home))
	return reports, measured, nil
}

// nodesAsked is an allocation whose nodes are asked.
type nodesAsked struct {
	Check      slurm.Check
	Allocation *allocation.Allocation
	Close      func()
}

// AskNodes finds an allocation and prepares to ask its nodes; close ends both.
func AskNodes(ctx context.Context, home string, set *Settings, job string, view *term.Progress,
	args ...string) (n *nodesAsked, err error) {
	o := &onSlurm{set: set, home: home, view: view}
	n = &nodesAsked{}
	var done func()
	if n.Check, done, err = o.check(args...); err != nil {
		return nil, exit.With(exit.Host, err)
	}
	if err = o.find(ctx, job, false); err != nil {
		done()
		return nil, slurmError(err)
	}
	n.Allocation = o.allocation
	n.Close = func() {
		o.leave(nil)
		done()
	}
	return n, nil
}

// relative makes speeds of rates: that of the median node is 1. They are multiples of 0.05, as more is not known from
// so short a measurement, and equal nodes are to be equal.
func relative(reports []slurm.Report) map[string]float64 {
	rates := make([]float64, 0, len(reports))
	for _, r := range reports {
		rates = append(rates, r.Rate)
	}
	slices.Sort(rates)
	speeds := map[string]float64{}
	for _, r := range reports {
		steps := math.Round(20 * r.Rate / rates[len(rates)/2])
		speeds[r.Node] = max(1, steps) / 20
	}
	return speeds
}

// CoreRate is how many bytes a core hashes in a second of its time: the best of many short turns, as others may disturb
// some of them.
func CoreRate() float64 {
	const turns, turn = 40, 10 * time.Millisecond
	block := make([]byte, 64<<10)
	best := 0.0
	for range turns {
		begun, bytes := executor.ThreadTime(), 0
		for executor.ThreadTime()-begun < turn {
			sum := sha256.Sum256(block)
			copy(block, sum[:])
			bytes += len(block)
		}
		best = max(best, float64(bytes)/(executor.ThreadTime()-begun).Seconds())
	}
	return cmp.Or(best, 1)
}
