package predict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gantry/planner"
	"gantry/planner/seed"
	"gantry/trace/spelling"
)

// ErrorKind is a way to be wrong on purpose.
type ErrorKind uint8

const (
	NoError ErrorKind = iota
	// every estimate is Factor times the declared one (Ilyushkin and Epema, CCGrid 2018, section II-A)
	Static
	Random1 // each workflow has one factor, uniform on (0, 2 Factor] (same section, random error I)
	// each estimate is uniform on (0, 2 Factor] seconds, not as declared (same section, random error II)
	Random2
	// each estimate is uniform between the declared one less Factor seconds, at least 0, and that plus Factor seconds:
	// shorter tasks have more variable errors (section VII, after Feitelson 2015)
	Short
	Uniform // estimates are as declared, and true runtimes are uniform around them; see Actual
)

var errorKinds = [...]string{"none", "static", "random1", "random2", "short", "uniform"}

// ErrorModel makes estimates wrong, or reality. The zero ErrorModel changes nothing. Draws are a function of Seed and
// of the workflow or task alone: runs that differ in policy or Factor meet the same ones.
type ErrorModel struct {
	Kind   ErrorKind
	Factor float64 // f_e of Static, Random1 and Random2; seconds of Short; u of Uniform, 3 being 300 %
	Seed   uint64
}

// MaxErrorFactor is the largest factor that ParseErrorModel takes.
const MaxErrorFactor = 1000

// ParseErrorModel reads "none", "static:F", "random1:F", "random2:F", "short:F" or "uniform:U".
func ParseErrorModel(text string) (ErrorModel, error) {
	name, value, has := strings.Cut(text, ":")
	for k, known := range errorKinds {
		if name != known {
			continue
		}
		if ErrorKind(k) == NoError {
			if has {
				return ErrorModel{}, fmt.Errorf("error model %q: none takes no factor", text)
			}
			return ErrorModel{}, nil
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f > 0 && f <= MaxErrorFactor) {
			return ErrorModel{}, fmt.Errorf("error model %q: give a factor above 0 and up to %d, as in %s:2", text,
				MaxErrorFactor, name)
		}
		return ErrorModel{Kind: ErrorKind(k), Factor: f}, nil
	}
	if near := spelling.Nearest(name, errorKinds[:]); near != "" {
		return ErrorModel{}, fmt.Errorf("error model %q is not known; did you mean %s?", text, near)
	}
	return ErrorModel{}, fmt.Errorf("error model %q is not known: choose none, static:F, random1:F, random2:F, "+
		"short:F or uniform:U", text)
}

// String returns the text that ParseErrorModel reads.
func (m ErrorModel) String() string {
	if m.Kind == NoError {
		return errorKinds[0]
	}
	return errorKinds[m.Kind] + ":" + strconv.FormatFloat(m.Factor, 'g', -1, 64)
}

// estimate returns the estimate of a run declared to last the given time, as a time, a factor that all tasks of the
// workflow share, and that factor over the part common to all estimates; mean is the declared run averaged over nodes,
// the same as run where nodes do not differ.
func (m ErrorModel) estimate(t *planner.Task, run, mean time.Duration) (time.Duration, float64, uint64) {
	switch m.Kind {
	case Static:
		return run, m.Factor, 1
	case Random1:
		u := m.draw(streamWorkflow, uint64(t.Workflow))
		return run, 2 * m.Factor * (1 - u), 1<<53 - uint64(u*(1<<53))
	case Random2:
		if mean == 0 {
			return 0, m.Factor, 1
		}
		seconds := 2 * (1 - m.draw(streamTask, uint64(t.ID)))
		return scaled(seconds, run, mean), m.Factor, 1
	case Short:
		if mean == 0 {
			return 0, 1, 1
		}
		low := max(0, mean.Seconds()-m.Factor)
		return scaled(low+(mean.Seconds()+m.Factor-low)*(1-m.draw(streamTask, uint64(t.ID))), run, mean), 1, 1
	}
	return run, 1, 1
}

// scaled converts an estimate in seconds, made for the declared mean run, to a node with the declared run. It returns
// at least 1 ns.
func scaled(seconds float64, run, mean time.Duration) time.Duration {
	if run != mean {
		seconds *= float64(run) / float64(mean)
	}
	return max(1, time.Duration(math.Round(seconds*1e9)))
}

// Actual returns how long t really runs if run is estimated: with Uniform, uniform between run (1 - 2u), but at least a
// second or run itself, and run (1 + 2u) (Wang, MOWS; the range that its example of 300 % names); with other models run
// itself.
func (m ErrorModel) Actual(t planner.TaskID, run time.Duration) time.Duration {
	if m.Kind != Uniform {
		return run
	}
	low := max(float64(min(run, time.Second)), float64(run)*(1-2*m.Factor))
	high := float64(run) * (1 + 2*m.Factor)
	return time.Duration(math.Round(low + (high-low)*m.draw(streamActual, uint64(t))))
}

const (
	streamWorkflow = iota + 1
	streamTask
	streamActual
)

// draw is uniform on [0, 1), by splitmix64 over its arguments.
func (m ErrorModel) draw(stream, id uint64) float64 {
	return seed.Fraction(seed.Mix(seed.Mix(seed.Mix(m.Seed)+stream) + id))
}
