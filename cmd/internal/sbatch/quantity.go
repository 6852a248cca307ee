package sbatch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit reads a time limit as Slurm does: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes or days-hours:minutes:seconds, rounded up to whole minutes. 0, which is no limit, is also written
// UNLIMITED, INFINITE and -1.
func Limit(text string) (time.Duration, error) {
	switch strings.ToUpper(text) {
	case "UNLIMITED", "INFINITE", "-1":
		return 0, nil
	}
	wrong := fmt.Errorf("time %q: write minutes, minutes:seconds, hours:minutes:seconds, days-hours, "+
		"days-hours:minutes or days-hours:minutes:seconds", text)
	days, clock, dashed := strings.Cut(text, "-")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if !dashed {
		clock, days = text, "0"
		if n := strings.Count(clock, ":"); n < 2 {
			units = units[1:]
		}
	}
	if dashed && clock == "" { // Slurm takes that
		clock = "0"
	}
	parts := strings.Split(clock, ":")
	if len(parts) > len(units) {
		return 0, wrong
	}
	total := new(sum)
	total.add(days, 24*time.Hour)
	for i, p := range parts {
		total.add(p, units[i])
	}
	if total.bad {
		return 0, wrong
	}
	return (total.d + time.Minute - 1) / time.Minute * time.Minute, nil
}

// sum adds up parts of a time.
type sum struct {
	d   time.Duration
	bad bool
}

func (s *sum) add(digits string, unit time.Duration) {
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n > uint64((math.MaxInt64-s.d-time.Minute)/unit) {
		s.bad = true
		return
	}
	s.d += time.Duration(n) * unit
}

// Memory reads an amount of memory as Slurm does, in bytes: megabytes, or a number with K, M, G or T, rounded up to
// whole megabytes of 2^20 bytes.
func Memory(text string) (int64, error) {
	wrong := fmt.Errorf("memory %q: write a whole number of megabytes, or one with K, M, G or T", text)
	digits := strings.TrimRight(text, "KMGTBkmgtb")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]uint{"": 20, "K": 10, "M": 20, "G": 30, "T": 40, "KB": 10, "MB": 20, "GB": 30,
		"TB": 40}[strings.ToUpper(text[len(digits):])]
	if err != nil || !ok || n < 0 || n > math.MaxInt64>>(shift+1) || digits[0] == '+' {
		return 0, wrong
	}
	return (n<<shift + 1<<20 - 1) >> 20 << 20, nil
}

// maxArray is Slurm's default bound of the indices of an array.
const maxArray = 1000

// indices reads the indices of an array, such as 1,5,7-9:2, in ascending order, each once, and how many elements may
// run at once, as in 0-9%2; 0: all.
func indices(text string) (out []int, atMost int, err error) {
	list, most, bounded := strings.Cut(text, "%")
	if bounded {
		if atMost, err = index(most); err != nil {
			return nil, 0, fmt.Errorf("array %q: after %% write how many elements may run at once, as in 0-15%%4", text)
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		bounds, stepText, stepped := strings.Cut(part, ":")
		first, last, ranged := strings.Cut(bounds, "-")
		step := 1
		from, err := index(first)
		to := from
		if ranged && err == nil {
			to, err = index(last)
		}
		if stepped && err == nil {
			step, err = index(stepText)
		}
		if err != nil || step == 0 || stepped && !ranged || from > to {
			return nil, 0, fmt.Errorf("array %q: write indices from 0 to %d, as in 0-15:4 or 1,3,7", text, maxArray)
		}
		for i := from; i <= to; i += step {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), atMost, nil
}

func index(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n > maxArray {
		err = strconv.ErrRange
	}
	return int(n), err
}

func count(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a whole number above 0", text)
	}
	return int(n), nil
}

func seconds(text string) (time.Duration, error) {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= 1e9) {
		return 0, fmt.Errorf("%q is not a number of seconds from 0 to 1e9", text)
	}
	return time.Duration(s * float64(time.Second)), nil
}

// clock writes a time as Slurm does: 0:03, 57:00, 2-03:00:00.
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	days, h, m, s := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// limitText writes a time limit as Slurm does.
func limitText(d time.Duration) string {
	if d == 0 {
		return "UNLIMITED"
	}
	return clock(d)
}

// memoryText writes an amount of memory as Slurm does.
func memoryText(bytes int64) string {
	mb := (bytes + 1<<20 - 1) >> 20
	switch {
	case mb > 0 && mb%(1<<20) == 0:
		return fmt.Sprintf("%dT", mb>>20)
	case mb > 0 && mb%(1<<10) == 0:
		return fmt.Sprintf("%dG", mb>>10)
	case mb > 0:
		return fmt.Sprintf("%dM", mb)
	}
	return "0"
}
