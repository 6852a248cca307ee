package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func cores() int { return runtime.NumCPU() }

// hostText describes this host.
func hostText() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores, %s, Linux %s", cores(), model, strings.TrimSpace(string(release)))
}

// busyCores is how many cores all programs of the host keep busy during that time. This one sleeps.
func busyCores(d time.Duration) float64 {
	began := time.Now()
	busy, total := cpuTimes()
	time.Sleep(d)
	busy2, total2 := cpuTimes()
	if total2 <= total || time.Since(began) <= 0 {
		return 0
	}
	return float64(cores()) * (busy2 - busy) / (total2 - total)
}

// cpuTimes reads the first line of /proc/stat: time of all cores, and the part that was not idle.
func cpuTimes() (busy, total float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(line) {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || i > 8 { // the name; guests are in user time
			continue
		}
		total += x
		if i != 4 && i != 5 { // idle, and waiting for I/O
			busy += x
		}
	}
	return busy, total
}
