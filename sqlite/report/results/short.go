package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"gantry/executor/experiment"
)

// shortForm marks the first line of the short form.
const shortForm = "gantry-results-1"

// maxShort bounds the short form, bytes.
const maxShort = 1 << 30

// head is the first line of the short form, line a cell. Metrics have a value for each repetition, null if it has none.
type head struct {
	Format string `json:"format"`
	*Set
	TookSeconds float64 `json:"took_seconds"`
}

type line struct {
	Params      map[string]string    `json:"params"`
	Inputs      string               `json:"inputs,omitempty"` // digest of the files
	Repetitions []int                `json:"repetitions"`
	States      []experiment.State   `json:"states"`
	Built       []int                `json:"built,omitempty"` // index of the build of each repetition; none: the first
	Metrics     map[string][]*number `json:"metrics"`
	Dots        [][3]number          `json:"dots,omitempty"` // tasks, slowdown, parallelism
}

// number has seven digits, which is more than an interval lets one trust.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(n), 'g', 7, 64), nil
}

// WriteShort writes the short form of results: JSON Lines with all runs, and of them the metrics that keep asks for;
// of workflows at most dots for each combination.
func (s *Set) WriteShort(w io.Writer, keep func(metric string) bool, dots int) error {
	e := json.NewEncoder(w)
	if err := e.Encode(head{shortForm, s, math.Round(s.Took.Seconds())}); err != nil {
		return err
	}
	for _, c := range s.Cells {
		l := line{Params: c.Params, Inputs: c.Inputs, Repetitions: []int{}, States: []experiment.State{},
			Metrics: map[string][]*number{}}
		for i := range c.Runs {
			l.Repetitions = append(l.Repetitions, c.Runs[i].Repetition)
			l.States = append(l.States, c.Runs[i].State)
			if len(s.Builds) > 1 {
				l.Built = append(l.Built, max(0, slices.Index(s.Builds, c.Runs[i].Build)))
			}
			for name, v := range c.Runs[i].Values {
				if !keep(name) {
					continue
				}
				if l.Metrics[name] == nil {
					l.Metrics[name] = make([]*number, len(c.Runs))
				}
				l.Metrics[name][i] = new(number(v))
			}
		}
		points := s.Dots[c.ID]
		step := max(1, (len(points)+dots-1)/max(1, dots))
		for i := 0; i < len(points); i += step {
			l.Dots = append(l.Dots, [3]number{number(points[i].Tasks), number(points[i].Slowdown),
				number(points[i].Parallelism)})
		}
		if err := e.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func readShort(r io.Reader) (*Set, error) {
	in := bufio.NewScanner(io.LimitReader(r, maxShort))
	in.Buffer(make([]byte, 1<<16), maxShort)
	s := &Set{Dots: map[int64][]Point{}}
	h := head{Set: s}
	for n := 1; in.Scan(); n++ {
		text := in.Bytes()
		fail := func(err error) (*Set, error) { return nil, fmt.Errorf("line %d: %w", n, err) }
		if n == 1 {
			if err := json.Unmarshal(text, &h); err != nil {
				return fail(err)
			}
			if h.Format != shortForm {
				return fail(fmt.Errorf("its format is %q, but has to be %q", h.Format, shortForm))
			}
			if len(s.Builds) > 0 {
				s.Version = s.Builds[len(s.Builds)-1]
			}
			s.Took = time.Duration(h.TookSeconds * float64(time.Second))
			continue
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fail(err)
		}
		if len(l.States) != len(l.Repetitions) {
			return fail(fmt.Errorf("%d states of %d repetitions", len(l.States), len(l.Repetitions)))
		}
		if len(l.Built) > 0 && len(l.Built) != len(l.Repetitions) || len(s.Builds) == 0 && len(l.Repetitions) > 0 {
			return fail(fmt.Errorf("%d builds of %d repetitions", len(l.Built), len(l.Repetitions)))
		}
		c := &Cell{ID: int64(n), Params: l.Params, Inputs: l.Inputs}
		for i, rep := range l.Repetitions {
			run := Run{Repetition: rep, State: l.States[i], Build: s.Builds[0], Values: map[string]float64{}}
			if len(l.Built) > 0 {
				if l.Built[i] < 0 || l.Built[i] >= len(s.Builds) {
					return fail(fmt.Errorf("build %d of %d", l.Built[i], len(s.Builds)))
				}
				run.Build = s.Builds[l.Built[i]]
			}
			for name, values := range l.Metrics {
				if len(values) != len(l.Repetitions) {
					return fail(fmt.Errorf("metric %s has %d values of %d repetitions", name, len(values),
						len(l.Repetitions)))
				}
				if values[i] != nil {
					run.Values[name] = float64(*values[i])
				}
			}
			c.Runs = append(c.Runs, run)
		}
		slices.SortFunc(c.Runs, func(a, b Run) int { return a.Repetition - b.Repetition })
		for _, d := range l.Dots {
			s.Dots[c.ID] = append(s.Dots[c.ID], Point{float64(d[0]), float64(d[1]), float64(d[2])})
		}
		s.Cells = append(s.Cells, c)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if h.Format == "" {
		return nil, fmt.Errorf("it is empty")
	}
	return s, nil
}
