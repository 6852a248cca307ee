package sbatch

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Account is a request to sacct.
type Account struct {
	Request
	Header bool
	// Since and Until bound when jobs were there; zero: not said.
	Since, Until        time.Time
	format              []field
	layout              string // of instants
	delimiter           string // of parsable output
	parsable, everybody bool
	trailing            bool // a delimiter at the end of a line
}

const (
	accountTable = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	accountBrief = "JobID,State,ExitCode"
)

// Fields are the names of the fields that sacct can print.
func Fields() string {
	names := strings.Fields(known(func(c column) string { return c.account }))
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return strings.Join(names, " ")
}

// ParseAccount reads a command line of sacct, without the command's name. Me is the calling user.
func ParseAccount(args []string, me string, env func(string) (string, bool), now time.Time) (*Account, error) {
	opts, err := only(sacctOptions, args)
	if err != nil {
		return nil, err
	}
	a := &Account{Header: true, delimiter: "|"}
	a.layout, a.Notes = layoutOf(env)
	c := &call{Request: &a.Request, Account: a, me: me, now: now, format: accountTable}
	if err := c.take(opts); err != nil || a.Ask != Submit {
		return a, err
	}
	if len(a.Select.Users) == 0 && !a.everybody {
		a.Select.Users = []string{me}
	}
	if a.Since.IsZero() && a.Select.Jobs == nil && a.Select.States == nil {
		y, m, d := now.Date()
		a.Since = time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	}
	return a, a.fields(c.format)
}

// fields reads a list such as JobID,State%20.
func (a *Account) fields(format string) error {
	for part := range strings.SplitSeq(format, ",") {
		if strings.EqualFold(part, "all") {
			if err := a.fields(strings.ReplaceAll(Fields(), " ", ",")); err != nil {
				return err
			}
			continue
		}
		name, widthText, sized := strings.Cut(part, "%")
		f, err := fieldOf("--format", name, func(c column) string { return c.account })
		if err != nil {
			return err
		}
		plain, left := strings.CutPrefix(widthText, "-")
		if f.width = f.col.width; sized {
			if f.width, err = strconv.Atoi(plain); err != nil || f.width <= 0 || f.width > 1<<16 {
				return fmt.Errorf("--format: %q is no width", part)
			}
		}
		f.right = !left && !strings.HasPrefix(f.col.account, "JobID") // Slurm writes numbers of jobs from the left
		a.format = append(a.format, f)
	}
	return nil
}

// instant reads a time: now, now-2days, 2026-11-23, 2026-11-23T10:00 or 10:00:00.
func instant(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if back, ok := strings.CutPrefix(text, "now-"); ok {
		digits := strings.TrimRight(back, "abcdefghijklmnopqrstuvwxyz")
		unit, known := map[string]time.Duration{"": time.Second, "second": time.Second, "minute": time.Minute,
			"hour": time.Hour, "day": 24 * time.Hour,
			"week": 7 * 24 * time.Hour}[strings.TrimSuffix(back[len(digits):], "s")]
		if n, err := strconv.ParseUint(digits, 10, 20); err == nil && known {
			return now.Add(-time.Duration(n) * unit), nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q: write now, now-2days, 2026-11-23 or 2026-11-23T10:00:00", text)
}

// Print writes the answer of sacct: those of the rows that are meant.
func (a *Account) Print(w io.Writer, rows []Row, now time.Time) error {
	var b strings.Builder
	line := func(show func(field) string) {
		for i, f := range a.format {
			cell := oneLine(show(f))
			if !a.parsable {
				b.WriteString(cut(cell, f) + " ")
				continue
			}
			b.WriteString(cell)
			if i < len(a.format)-1 || a.trailing {
				b.WriteString(a.delimiter)
			}
		}
		b.WriteByte('\n')
	}
	if a.Header {
		line(func(f field) string { return f.col.account })
		if !a.parsable {
			line(func(f field) string { return strings.Repeat("-", f.width) })
		}
	}
	v := view{now: now, layout: a.layout, unknown: "Unknown"}
	for i := range rows {
		r := &rows[i]
		// A job that was there at some time between Since and Until.
		if !a.Select.Match(r) || !a.Since.IsZero() && r.State.Ended() && r.Ended.Before(a.Since) ||
			!a.Until.IsZero() && r.Submitted.After(a.Until) {
			continue
		}
		line(func(f field) string { return f.col.show(r, v) })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cut makes a cell as wide as its column; a longer cell ends in a plus sign, as in sacct.
func cut(cell string, f field) string {
	if runes := []rune(cell); len(runes) > f.width {
		return string(runes[:f.width-1]) + "+"
	}
	return fit(cell, f.width, f.right)
}
