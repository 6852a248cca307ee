package hostmodel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"gantry/executor/sim/hostmodel"
)

func TestModelsComeBackFromJSON(t *testing.T) {
	m := hostmodel.Example(4)
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := hostmodel.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Encode()
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("%v:\n%s\n%s", err, text, again)
	}
}

func TestValidateRefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(m *hostmodel.Model)
		says string
	}{
		{"format", func(m *hostmodel.Model) { m.Format = 2 }, "format"},
		{"NaN", func(m *hostmodel.Model) { m.Phases.Stage.Wall.BaseNanos = math.NaN() }, "stage.wall.base_nanos"},
		{"negative time", func(m *hostmodel.Model) { m.Phases.End.CPU.FileNanos = -1 }, "phases.end.cpu.file_nanos"},
		{"starts of hours", func(m *hostmodel.Model) { m.Phases.Start.Wall.BaseNanos = float64(time.Hour) },
			"phases.start.wall.base_nanos"},
		{"no starts", func(m *hostmodel.Model) { m.Phases.Start = hostmodel.Phase{} }, "phases.start"},
		{"rate of 0", func(m *hostmodel.Model) { m.Disk.ReadBytesPerSecond = 0 }, "disk.read_bytes_per_second"},
		{"infinite rate", func(m *hostmodel.Model) { m.Emulator.WriteBytesPerSecond = math.Inf(1) }, "emulator.write"},
		{"falling surface", func(m *hostmodel.Model) {
			m.Phases.Start.Slowdown = hostmodel.Surface{Together: []float64{1, 2}, BusyCores: []float64{0},
				Factor: [][]float64{{1}, {0.9}}}
		}, "slowdown"},
		{"ragged surface", func(m *hostmodel.Model) {
			m.Phases.Start.Slowdown = hostmodel.Surface{Together: []float64{1, 2}, BusyCores: []float64{0, 1},
				Factor: [][]float64{{1, 1}, {2}}}
		}, "row of 1"},
		{"surface without values", func(m *hostmodel.Model) { m.Phases.Start.Slowdown.Together = []float64{1} },
			"0 rows"},
		{"arguments that do not ascend", func(m *hostmodel.Model) {
			m.Disk.ReadLimit = hostmodel.Curve{X: []float64{0, 0}, Y: []float64{1, 1}}
		}, "does not ascend"},
		{"a limit that stops everything", func(m *hostmodel.Model) {
			m.Disk.WriteLimit = hostmodel.Curve{X: []float64{0, 1}, Y: []float64{1, 0}}
		}, "write_limit"},
		{"falling quantiles", func(m *hostmodel.Model) { m.Run = hostmodel.Spread{1, 0.5} }, "run falls"},
		{"quantile of 0", func(m *hostmodel.Model) { m.Run = hostmodel.Spread{0, 1} }, "run"},
		{"drift that falls", func(m *hostmodel.Model) { m.Phases.Start.Drift = hostmodel.Spread{2, 1} },
			"phases.start.drift"},
		{"no cores", func(m *hostmodel.Model) { m.Host.Cores = 0 }, "cores"},
		{"no date", func(m *hostmodel.Model) { m.Measured.At = time.Time{} }, "measured.at"},
		{"stolen twice", func(m *hostmodel.Model) { m.Measured.Stolen = 2 }, "stolen"},
	} {
		m := hostmodel.Example(4)
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		c.harm(m)
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: it was encoded", c.name)
		}
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	text, err := hostmodel.Example(4).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(text)-1; cut += 7 {
		if _, err := hostmodel.Decode(text[:cut]); !errors.Is(err, hostmodel.ErrDamaged) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	var all map[string]any
	json.Unmarshal(text, &all)
	all["format"] = 99
	other, _ := json.Marshal(all)
	for _, bad := range []string{string(other), "null", "[]", "{}", "7", "", "{\"format\":1}"} {
		if _, err := hostmodel.Decode([]byte(bad)); !errors.Is(err, hostmodel.ErrDamaged) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func TestFits(t *testing.T) {
	m := hostmodel.Example(4)
	same, unknown := m.Host, hostmodel.Host{}
	same.Gantry = "another build"
	for _, h := range []hostmodel.Host{same, unknown} {
		if err := m.Fits(h); err != nil {
			t.Error(err)
		}
	}
	for _, h := range []hostmodel.Host{{Name: "other"}, {Kernel: "7.0"}, {Cores: 8}, {EngineVersion: "29"},
		{Runtime: "oci"}, {CgroupVersion: 1}, {FileSystem: "xfs"}} {
		if err := m.Fits(h); !errors.Is(err, hostmodel.ErrForeign) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

func TestTables(t *testing.T) {
	s := hostmodel.Surface{Together: []float64{1, 3}, BusyCores: []float64{0, 2, 4}, Factor: [][]float64{{1, 2, 4},
		{3, 4, 10}}}
	for _, c := range []struct{ together, busy, want float64 }{{1, 0, 1}, {0, -1, 1}, {1, 1, 1.5}, {2, 0, 2},
		{2, 1, 2.5},
		{3, 4, 10}, {9, 9, 10}, {1, 3, 3}, {2, 4, 7}} {
		if got := s.At(c.together, c.busy); got != c.want {
			t.Errorf("at %v, %v: %v, want %v", c.together, c.busy, got, c.want)
		}
	}
	measured := hostmodel.Surface{Together: []float64{1, 2}, BusyCores: []float64{0, 1}, Factor: [][]float64{{80, 70},
		{100, 160}}}
	measured.Raise()
	if measured.At(1, 1) != 1 || measured.At(2, 0) != 1.25 || measured.At(2, 1) != 2 {
		t.Errorf("raised: %+v", measured)
	}
	var none hostmodel.Surface
	var flat hostmodel.Curve
	if none.At(5, 5) != 1 || flat.At(3) != 1 || hostmodel.Spread(nil).At(0.5) != 1 {
		t.Error("an empty table is not 1")
	}
	line := hostmodel.SpreadOf([]float64{5, 1, 3, 2, 4})
	if len(line) != hostmodel.SpreadQuantiles || line.At(0) != 1 || line.At(0.5) != 3 || line.At(1) != 5 ||
		line.At(0.25) != 2 || math.Abs(line.Mean()-3) > 1e-9 {
		t.Errorf("spread %v, mean %v", line, line.Mean())
	}
	if w := (hostmodel.Spread{0.02, 0.05, 900}).Widen(2); w[0] != 0.01 || w[2] != 1000 {
		t.Errorf("widened beyond what a model may have: %v", w)
	}
	if w := line.Widen(2); w.At(0.5) != 3 || w.At(1) != 7 || w.At(0) != 0.3 {
		t.Errorf("widened %v", w)
	}
}

// A quota of half a core with periods of 20 ms: 10 ms of CPU time in each.
func TestQuota(t *testing.T) {
	for _, c := range []struct {
		cpu        float64
		threads    int
		millicores int64
		want       float64
	}{
		{5e6, 1, 500, 5e6},              // within the first period's share, at full speed
		{10e6, 1, 500, 10e6},            // all of it
		{15e6, 1, 500, 25e6},            // stands still for 10 ms, then 5 ms
		{1e9, 1, 500, 99*20e6 + 10e6},   // long: half as fast
		{40e6, 2, 1000, 20e6 + 10e6},    // two threads use 20 ms in 10 ms
		{30e6, 3, 0, 10e6},              // no quota
		{30e6, 1, 2000, 30e6},           // more than it can use
		{0, 1, 500, 0}, {-1, 1, 500, 0}, // nothing to do
		{10e6, 0, 1000, 10e6},    // a thread at least
		{2e6, 1, 50, 20e6 + 1e6}, // 1 ms a period
	} {
		if got := hostmodel.QuotaWall(c.cpu, c.threads, c.millicores); math.Abs(got-c.want) > 1 {
			t.Errorf("%v ns of CPU time on %d threads within %d: %v, want %v", c.cpu, c.threads, c.millicores, got,
				c.want)
		}
	}
}

// Staging 10 ms, creating 20, starting 80, ending 30, publishing 5 and 5 for each of two outputs.
func TestOverhead(t *testing.T) {
	m := hostmodel.Example(4)
	if got := m.Overhead(3, 2); got != 155*time.Millisecond {
		t.Errorf("%v", got)
	}
	m.Phases.Start.Slowdown = hostmodel.Surface{Together: []float64{1}, BusyCores: []float64{0, 4},
		Factor: [][]float64{{1, 2}}} // 1.5 at 2 of 4 cores
	m.Phases.End.Spread = hostmodel.Spread{1, 3}
	if got := m.Overhead(3, 2); got != 225*time.Millisecond {
		t.Errorf("busy: %v", got)
	}
}

func TestCost(t *testing.T) {
	c := hostmodel.Cost{BaseNanos: 100, FileNanos: 10, ByteNanos: 2}
	if got := c.Nanos(3, 50); got != 100+30+100 {
		t.Errorf("%v", got)
	}
}

// One start of nine that took fifty times as long is none of how starts vary.
func TestOutliersAreNoPartOfASpread(t *testing.T) {
	s := hostmodel.SpreadOf([]float64{0.9, 0.95, 0.97, 1, 1, 1.02, 1.05, 1.1, 50})
	if s.At(0) != 0.9 || s.At(1) != 1.1 {
		t.Errorf("from %v to %v", s.At(0), s.At(1))
	}
	if s := hostmodel.SpreadOf([]float64{1, 1, 1, 1, 1, 1, 1, 1}); s.At(0) != 1 || s.At(1) != 1 {
		t.Errorf("equal measurements spread from %v to %v", s.At(0), s.At(1))
	}
}

// Nine tenths of the values of a normal distribution are below 1.28 standard deviations; estimated from few values it
// is more.
func TestSpreadsAroundOne(t *testing.T) {
	for n, want := range map[int]float64{2: 1.66, 3: 1.33, 1001: 1} {
		s := hostmodel.LogNormal(0.1, n)
		if got := math.Log(s.At(0.9) / s.At(0.5)); math.Abs(got-0.12816*want) > 0.003 {
			t.Errorf("of %d values: %v, want %v", n, got, 0.12816*want)
		}
		if m := s.Mean(); math.Abs(m-1) > 1e-9 {
			t.Errorf("of %d values: the mean is %v", n, m)
		}
	}
	if a, b := hostmodel.LogNormal(0.1, 1), hostmodel.LogNormal(0, 5); a != nil || b != nil {
		t.Errorf("%v and %v of nothing that differs", a, b)
	}
}
