package reader

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// MaxSeconds is the longest duration that nanoseconds in an int64 can express: 292 years.
const MaxSeconds = float64(math.MaxInt64) / 1e9

var (
	errNotNumber = errors.New("not a number")
	errTooLarge  = errors.New("too large a number")
)

// Number reads a finite decimal number, blanks around it allowed. NaN, infinities and hexadecimal are refused.
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
		return 0, errTooLarge
	}
	if err != nil {
		return 0, errNotNumber
	}
	return x, nil
}

// Seconds reads seconds, rounded to nanoseconds.
func Seconds(text string) (time.Duration, error) {
	x, err := Number(text)
	if err != nil {
		return 0, err
	}
	if math.Abs(x) >= MaxSeconds {
		return 0, errTooLarge
	}
	return time.Duration(math.Round(x * 1e9)), nil
}

// Digits reads a text of 1 to 15 digits and nothing else, which is what most amounts are.
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

// Count reads an amount in whole units of scale bytes (or of anything else); fractions are rounded up.
func Count(text string, scale int64) (int64, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > math.MinInt64/scale && n < math.MaxInt64/scale {
		return n * scale, nil
	}
	x, err := Number(text)
	if err != nil {
		return 0, err
	}
	if x = math.Ceil(x * float64(scale)); math.Abs(x) >= math.MaxInt64 {
		return 0, errTooLarge
	}
	return int64(x), nil
}

var amountWithUnit = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtTpP]?)(i?)[bB]?$`)

// BinaryBytes reads a positive amount with a unit such as "2 GB", powers of 1024 as HTCondor has them.
func BinaryBytes(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if n := len(text); n == 0 || text[n-1] <= '9' { // as most are: a plain number
		return 0, false
	}
	m := amountWithUnit.FindStringSubmatch(text)
	if m == nil || m[2] == "" {
		return 0, false
	}
	n, err := units.RAMInBytes(m[1] + m[2])
	return n, err == nil && n > 0
}

// Bytes reads an amount of bytes for people: "2GB" and "2 GB" are 2·10^9, "2GiB" is 2·2^30, a plain number is bytes.
func Bytes(text string) (int64, error) {
	m := amountWithUnit.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, errors.New("not an amount of bytes such as 2GB, 512MiB or 4096")
	}
	of := units.FromHumanSize
	if m[3] != "" {
		of = units.RAMInBytes
	}
	if x, err := strconv.ParseFloat(m[1], 64); err != nil || x > 1e15 {
		return 0, errTooLarge
	}
	n, err := of(m[1] + m[2])
	if err != nil || n < 0 {
		return 0, errTooLarge
	}
	return n, nil
}
