package sbatch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// view has the inputs of columns beside their job: the present, and the format of instants.
type view struct {
	now    time.Time
	layout string // of strftime, or relative
	// unknown is written for an instant that is not known, null for a text that a job does not have.
	unknown, null string
}

// standard is how Slurm writes instants if SLURM_TIME_FORMAT says nothing else.
const standard = "%FT%T"

// layoutOf reads SLURM_TIME_FORMAT: standard, relative, or a format of strftime of fewer than 32 bytes.
func layoutOf(env func(string) (string, bool)) (layout string, notes []string) {
	switch text, _ := env("SLURM_TIME_FORMAT"); {
	case text == "" || text == "standard":
	case text == "relative":
		return text, nil
	case !strings.Contains(text, "%") || len(text) >= 32:
		return standard, []string{fmt.Sprintf("SLURM_TIME_FORMAT=%q has no effect: write standard, relative, or a "+
			"format of strftime of fewer than 32 bytes, as in %%a %%T", text)}
	default:
		return text, nil
	}
	return standard, nil
}

// stamp writes the first of some instants that is known, as Slurm does.
func (v view) stamp(all ...time.Time) string {
	at := slices.IndexFunc(all, func(t time.Time) bool { return !t.IsZero() })
	if at < 0 {
		return v.unknown
	}
	t, layout := all[at].Local(), v.layout
	if layout == "relative" {
		layout = relative(t, v.now.Local())
	}
	return strftime(t, layout)
}

// relative is the layout of an instant by its distance in days from now; Slurm takes those of other years for far.
func relative(t, now time.Time) string {
	switch days := 1000*(t.Year()-now.Year()) + t.YearDay() - now.YearDay(); {
	case days == -1:
		return "Ystday %H:%M"
	case days == 0:
		return "%H:%M:%S"
	case days == 1:
		return "Tomorr %H:%M"
	case days < -365 || days > 365:
		return "%-d %b %Y"
	case days < 0 || days > 6:
		return "%-d %b %H:%M"
	}
	return "%a %H:%M"
}

// layouts are conversions of strftime in the words of package time, for the locale C.
var layouts = map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006",
	'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03", 'j': "002", 'm': "01",
	'M': "04", 'p': "PM", 'P': "pm", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06",
	'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST"}

var conversion = regexp.MustCompile(`(?s)%[-_0^]*[^-_0^]`)

// strftime writes an instant as the C library does, with its flags - _ 0 and ^. Unknown conversions stay.
func strftime(t time.Time, format string) string {
	return conversion.ReplaceAllStringFunc(format, func(part string) string {
		last := len(part) - 1
		text, known := converted(t, part[last])
		if !known {
			return part
		}
		for _, flag := range part[1:last] {
			text = flagged(text, flag)
		}
		return text
	})
}

// flagged is a converted text by a flag of strftime; three of them are for numbers.
func flagged(text string, flag rune) string {
	n, err := strconv.ParseUint(strings.TrimLeft(text, " "), 10, 63)
	switch {
	case flag == '^':
		return strings.ToUpper(text)
	case err != nil:
		return text
	case flag == '-':
		return fmt.Sprint(n)
	case flag == '_':
		return fmt.Sprintf("%*d", len(text), n)
	}
	return fmt.Sprintf("%0*d", len(text), n)
}

// converted is an instant by one conversion of strftime.
func converted(t time.Time, letter byte) (text string, known bool) {
	if layout, ok := layouts[letter]; ok {
		return t.Format(layout), true
	}
	year, week := t.ISOWeek()
	weekday := int(t.Weekday())
	number, ok := map[byte]struct {
		format string
		n      any
	}{'s': {"%d", t.Unix()}, 'C': {"%02d", t.Year() / 100}, 'k': {"%2d", t.Hour()}, 'l': {"%2d", (t.Hour()+11)%12 + 1},
		'g': {"%02d", year % 100}, 'G': {"%d", year}, 'V': {"%02d", week}, 'u': {"%d", (weekday+6)%7 + 1},
		'w': {"%d", weekday}, 'U': {"%02d", (t.YearDay() + 6 - weekday) / 7},
		'W': {"%02d", (t.YearDay() + 6 - (weekday+6)%7) / 7}}[letter]
	if ok {
		return fmt.Sprintf(number.format, number.n), true
	}
	return "%", letter == '%'
}
