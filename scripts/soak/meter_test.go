package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/planner"
	"gantry/scripts/measure"
	"gantry/sqlite"
	"gantry/sqlite/logtest"
)

// quantity is something that is sampled.
type quantity struct {
	name  string // of its column
	label string
	unit  string
	// slack is how much the mean of the last quarter of the samples may lie above that of the second quarter, beyond a
	// tenth of it. The first quarter is left out: caches fill.
	slack float64
}

// The quantities of a sample, in the order of its values.
const (
	heap = iota
	rss
	goroutines
	descriptors
	watches
	groups
	logBytes
	quantities
)

var sampled = [quantities]quantity{
	heap: {"live_heap_mb", "live heap", "MB", 4},
	rss:  {"rss_mb", "resident memory", "MB", 24},
	// The next four vary with how many containers are under way, of which each has a control group in each hierarchy of
	// cgroup v1.
	goroutines:  {"goroutines", "goroutines", "", 16},
	descriptors: {"descriptors", "file descriptors", "", 32},
	watches:     {"inotify_watches", "inotify watches", "", 10},
	groups:      {"control_groups", "control groups", "", 100},
	logBytes:    {"log_bytes_per_attempt", "log bytes per attempt", "", 20},
}

type sample struct {
	attempts int
	at       time.Duration
	values   [quantities]float64
}

// meter counts attempts and samples this process every so often.
type meter struct {
	home    string
	run     string // whose control groups are counted; "": none
	every   int
	begun   time.Time
	failed  bool // a task of the stream under way has failed for good
	outages int

	attempts int
	next     int
	ends     [planner.OutOfDisk + 1]int // by outcome
	samples  []sample
	lastLog  int64
	lastAt   int // attempts
}

// watch is the engine's.
func (m *meter) watch(v planner.View, events []planner.Event, _ []*executor.Admission) {
	for i := range events {
		x, ok := events[i].Body.(*planner.AttemptExited)
		if !ok {
			continue
		}
		m.attempts++
		m.ends[x.Outcome]++
		if v.Phase(v.Attempt(x.Attempt).Task) == planner.Failed {
			m.failed = true
		}
	}
	if m.attempts >= m.next {
		m.take()
		m.next = m.attempts + m.every
	}
}

func (m *meter) take() {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := sample{attempts: m.attempts, at: time.Since(m.begun)}
	s.values[heap] = float64(mem.HeapAlloc) / 1e6
	s.values[rss] = residentMB()
	s.values[goroutines] = float64(runtime.NumGoroutine())
	s.values[descriptors], s.values[watches] = descriptorsAndWatches()
	s.values[groups] = float64(m.controlGroups())
	size := measure.LogSize(m.home)
	if done := m.attempts - m.lastAt; m.lastAt > 0 && done > 0 {
		s.values[logBytes] = float64(size-m.lastLog) / float64(done)
	} else if m.attempts > 0 {
		s.values[logBytes] = float64(size) / float64(m.attempts)
	}
	m.lastLog, m.lastAt = size, m.attempts
	m.samples = append(m.samples, s)
	if n := len(m.samples); n%20 == 1 {
		v := s.values
		fmt.Printf("  %9d attempts, %8v: heap %.1f MB, resident %.1f MB, %.0f goroutines, %.0f descriptors, %.0f "+
			"watches, %.0f control groups, log %.1f MB\n",
			s.attempts, s.at.Round(time.Second), v[heap], v[rss], v[goroutines], v[descriptors], v[watches], v[groups],
			float64(size)/1e6)
	}
}

func residentMB() float64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / 1e6
}

// descriptorsAndWatches counts the descriptors and the watches that this process has open.
func descriptorsAndWatches() (open, watches float64) {
	entries, _ := os.ReadDir("/proc/self/fdinfo")
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("/proc/self/fdinfo", e.Name()))
		if err != nil {
			continue // the directory's own
		}
		open++
		watches += float64(bytes.Count(text, []byte("inotify wd:")))
	}
	return open, watches
}

// controlGroups counts the directories of the run in the hierarchies of the kernel.
func (m *meter) controlGroups() (n int) {
	if m.run == "" {
		return 0
	}
	_ = filepath.WalkDir(cgroup.Root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "gantry") && strings.Contains(path, m.run+"-") {
			n++
		}
		return nil
	})
	return n
}

func (m *meter) endsText() string {
	var parts []string
	for _, o := range planner.Outcomes() {
		if m.ends[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m.ends[o], o))
		}
	}
	if m.outages > 0 {
		parts = append(parts, fmt.Sprintf("nodes left and returned %d times", m.outages))
	}
	return strings.Join(parts, ", ")
}

// quarter is the mean of a quantity over the samples of a quarter of the attempts, from 1 on.
func (m *meter) quarter(of, k int) float64 {
	sum, n := 0.0, 0
	for _, s := range m.samples {
		if min(4, 1+4*s.attempts/max(1, m.attempts)) == k {
			sum += s.values[of]
			n++
		}
	}
	return sum / float64(max(1, n))
}

// fewSamples are too few to distinguish growth from the noise of a short soak: it is shown, and fails nothing.
const fewSamples = 50

// judge fails for each number that is larger in the last quarter of the attempts than in the second.
func (m *meter) judge() error {
	var errs []error
	for i, q := range sampled {
		before, after := m.quarter(i, 2), m.quarter(i, 4)
		verdict := "flat"
		if after > before*1.1+q.slack {
			verdict = "GROWS"
			errs = append(errs, fmt.Errorf("%s: grows from %.4g to %.4g %s", q.label, before, after, q.unit))
		}
		fmt.Printf("  %-22s second quarter %10.4g, last quarter %10.4g %-3s %s\n", q.label, before, after, q.unit,
			verdict)
	}
	return errors.Join(errs...)
}

// write keeps the samples as CSV.
func (m *meter) write(path string) error {
	var b strings.Builder
	b.WriteString("attempts,seconds")
	for _, q := range sampled {
		b.WriteString("," + q.name)
	}
	b.WriteByte('\n')
	for _, s := range m.samples {
		fmt.Fprintf(&b, "%d,%.1f", s.attempts, s.at.Seconds())
		for _, v := range s.values {
			fmt.Fprintf(&b, ",%.1f", v)
		}
		b.WriteByte('\n')
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// drawing plots each quantity over the attempts as SVG, a panel each.
func (m *meter) drawing(title string) []byte {
	const width, height = 300, 120
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="serif" font-size="11">`+
		`<rect width="100%%" height="100%%" fill="#fff"/><text x="10" y="18" font-size="13">%s</text>`+"\n",
		2*(width+70), 30+(quantities+1)/2*(height+50), title)
	for i, q := range sampled {
		most := 0.0
		for _, s := range m.samples {
			most = max(most, s.values[i])
		}
		fmt.Fprintf(&b, `<g transform="translate(%d %d)"><text y="-5">%s %s</text>`+
			`<rect width="%d" height="%d" fill="none" stroke="#aaa"/>`, 55+i%2*(width+70), 60+i/2*(height+50), q.label,
			q.unit, width, height)
		fmt.Fprintf(&b, `<text x="-4" y="10" text-anchor="end">%.4g</text>`+
			`<text x="-4" y="%d" text-anchor="end">0</text><text x="%d" y="%d" text-anchor="end">%d attempts</text>`+
			`<polyline fill="none" stroke="#1f77b4" points="`,
			most, height, width, height+13, m.attempts)
		for _, s := range m.samples {
			fmt.Fprintf(&b, "%.1f,%.1f ", float64(s.attempts)/float64(max(1, m.attempts))*width,
				height-s.values[i]/max(most, 1e-9)*(height-5))
		}
		b.WriteString("\"/></g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// verify checks the log of a part that is over.
func (m *meter) verify(ctx context.Context) error {
	begun := time.Now()
	if err := logtest.Check(ctx, filepath.Join(m.home, sqlite.FileName)); err != nil {
		return fmt.Errorf("the log is not sound: %w", err)
	}
	fmt.Printf("  the log (%.1f MB) is sound: integrity_check, foreign keys, rows = events (checked in %v)\n",
		float64(measure.LogSize(m.home))/1e6, time.Since(begun).Round(time.Second))
	return nil
}
