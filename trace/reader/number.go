package reader

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The largest numbers in files. Results computed from them, such as sums and multiples, then fit.
const (
	MaxCores   = 1_000_000
	MaxBytes   = int64(1) << 53 // 9 PB
	MaxRetries = 10_000
	MaxTime    = 100 * 365 * 24 * time.Hour
)

var errNotNumber = errors.New("not a number")

// Above says that a number is above its bound.
func Above(most float64) error {
	return fmt.Errorf("above the bound of %s", strconv.FormatFloat(most, 'f', -1, 64))
}

// Number reads a finite decimal number, blanks around it allowed. NaN, infinities and hexadecimal are refused; a number
// too large for float64 is the largest one, which is above every bound.
func Number(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, errNotNumber
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c|0x20 != 'e' {
			return 0, errNotNumber
		}
	}
	x, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.Copysign(math.MaxFloat64, x), nil
	}
	if err != nil {
		return 0, errNotNumber
	}
	return x, nil
}

// Seconds reads seconds up to MaxTime, rounded to nanoseconds.
func Seconds(text string) (time.Duration, error) {
	x, err := Number(text)
	if err == nil && math.Abs(x) > MaxTime.Seconds() {
		err = fmt.Errorf("%w s, 100 years", Above(MaxTime.Seconds()))
	}
	return time.Duration(math.Round(x * 1e9)), err
}

// Duration reads a duration as Go has them, such as 1h30m, from 0 to MaxTime.
func Duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d > MaxTime, err != nil && wholeDuration.MatchString(text):
		return 0, errors.New("above the bound of 876000h, 100 years")
	case err != nil || d < 0:
		return 0, errors.New("not a duration with its unit, such as 90s or 1h30m, from 0 on")
	}
	return d, nil
}

// wholeDuration matches durations that the library refuses for their size alone.
var wholeDuration = regexp.MustCompile(`^\+?([0-9.]*[0-9](ns|us|µs|ms|s|m|h))+$`)

// Digits reads a text of 1 to 15 digits and nothing else, as most amounts are.
func Digits[T string | []byte](text T) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// Count reads an amount in whole units of scale bytes (or of anything else), up to MaxBytes; fractions are rounded up.
func Count(text string, scale int64) (int64, error) {
	x, err := Number(text)
	if x = math.Ceil(x * float64(scale)); err == nil && math.Abs(x) > float64(MaxBytes) {
		err = Above(float64(MaxBytes / scale))
	}
	return int64(x), err
}

var amountWithUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtTpP]?)(i?)[bB]?$`)

// amount is a number with a unit; each unit is the same multiple of the one before it.
func amount(number, unit string, times float64) (int64, error) {
	x, err := Number(number)
	if unit != "" {
		x *= math.Pow(times, float64(1+strings.Index("kmgtp", strings.ToLower(unit))))
	}
	if err == nil && x > float64(MaxBytes) {
		err = fmt.Errorf("%w bytes", Above(float64(MaxBytes)))
	}
	return int64(x), err
}

// BinaryBytes reads an amount of bytes with a unit such as "2 GB", powers of 1024 as HTCondor has them, or else in
// units of scale bytes.
func BinaryBytes(text string, scale int64) (int64, error) {
	m := amountWithUnit.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || m[2] == "" {
		return Count(text, scale)
	}
	return amount(m[1], m[2], 1024)
}

// Bytes reads an amount of bytes for people: "2GB" and "2 GB" are 2·10^9, "2GiB" is 2·2^30, a plain number is bytes.
func Bytes(text string) (int64, error) {
	m := amountWithUnit.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, errors.New("not an amount of bytes such as 2GB, 512MiB or 4096")
	}
	if m[3] != "" {
		return amount(m[1], m[2], 1024)
	}
	return amount(m[1], m[2], 1000)
}
