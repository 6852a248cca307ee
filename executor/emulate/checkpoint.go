package emulate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// CheckpointFile is where the emulator leaves its checkpoint, in its working directory. It comes there by rename, after
// it was synced.
const CheckpointFile = ".command.checkpoint"

// Checkpoint is how far a task is. A checkpoint file has it as one line of JSON, and bytes without meaning up to the
// size asked for: a program that saved its memory would leave as much.
type Checkpoint struct {
	Version int `json:"version"`
	// CPUDone and TimeDone are the fractions of the CPU time and of the Run that are over. Fractions, as a node of
	// another kind may need another time for the same work.
	CPUDone  float64 `json:"cpu_done"`
	TimeDone float64 `json:"time_done"`
	Inputs   int     `json:"inputs"`  // read whole, in the order of Spec.Inputs
	Outputs  int     `json:"outputs"` // written whole, in the order of Spec.Outputs

	// Sums over all attempts so far.
	Attempts     int   `json:"attempts"`
	CPUNanos     int64 `json:"cpu_nanos"`
	OwnCPUNanos  int64 `json:"own_cpu_nanos"`
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
}

const (
	checkpointVersion = 2
	checkpointLine    = 4096 // the longest line that is read
)

// Done is the fraction of the whole task that is done: of its CPU time or of its Run, whichever is behind; of its bytes
// if it has neither.
func (c *Checkpoint) Done(s *Spec) float64 {
	switch {
	case s.CPUNanos > 0:
		return min(c.CPUDone, c.TimeDone)
	case s.RunNanos > 0:
		return c.TimeDone
	}
	var all int64
	for _, f := range slices.Concat(s.Inputs, s.Outputs) {
		all += max(f.Bytes, 0)
	}
	if all == 0 {
		return 0
	}
	return min(1, float64(c.ReadBytes+c.WrittenBytes)/float64(all))
}

// Write writes a checkpoint file of at least size bytes.
func (c *Checkpoint) Write(w io.Writer, size int64) error {
	c.Version = checkpointVersion
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := w.Write(line); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{}) // which does not compress
	_, err = io.CopyN(w, noise, max(0, size-int64(len(line))))
	return err
}

// ReadCheckpoint reads and validates a checkpoint file of a task with work s.
func ReadCheckpoint(r io.Reader, s *Spec) (*Checkpoint, error) {
	line, err := bufio.NewReaderSize(io.LimitReader(r, checkpointLine), checkpointLine).ReadBytes('\n')
	if err == io.EOF {
		err = errors.New("its first line does not end")
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c := new(Checkpoint)
	if err := json.Unmarshal(line, c); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	fraction := func(f float64) bool { return !math.IsNaN(f) && f >= 0 && f <= 1 }
	switch {
	case c.Version != checkpointVersion:
		return nil, fmt.Errorf("checkpoint: version %d, this emulator reads %d", c.Version, checkpointVersion)
	case !fraction(c.CPUDone) || !fraction(c.TimeDone):
		return nil, fmt.Errorf("checkpoint: %v of the CPU time and %v of the time are no fractions", c.CPUDone,
			c.TimeDone)
	case c.Inputs < 0 || c.Inputs > len(s.Inputs) || c.Outputs < 0 || c.Outputs > len(s.Outputs):
		return nil, fmt.Errorf("checkpoint: %d inputs and %d outputs, of %d and %d", c.Inputs, c.Outputs, len(s.Inputs),
			len(s.Outputs))
	case c.Attempts < 1 || min(c.CPUNanos, c.OwnCPUNanos, c.ReadBytes, c.WrittenBytes) < 0:
		return nil, errors.New("checkpoint: a sum is below 0")
	}
	return c, nil
}
