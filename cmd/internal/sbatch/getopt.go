package sbatch

import (
	"fmt"
	"slices"
	"strings"
)

// takes says whether an option takes a value.
type takes uint8

const (
	nothing  takes = iota
	value          // always
	optional       // only as --name=VALUE
)

// option is an option of one of Slurm's commands.
type option struct {
	long, short string
	takes       takes
	// refuse and report are why gantry does not honour it: a job would depend on it, or would run as well without.
	// "" for both: it is honoured.
	refuse, report string
}

// UsageError is a command line that Slurm would not take either, or that asks for a feature that gantry lacks.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// given is an option with its value.
type given struct {
	*option
	value string
}

// name is how messages call the option.
func (o *option) name() string {
	if o.long == "" {
		return "-" + o.short
	}
	return "--" + o.long
}

// getopt reads a command line as the C library does for Slurm: -c2, -c 2, --cpus-per-task=2, names cut short while they
// are unique, and, after the first argument that is no option, only arguments.
func getopt(table []option, args []string) (opts []given, rest []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" {
			return opts, args[1:], nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			return opts, args, nil
		}
		args = args[1:]
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			name, text, has := strings.Cut(name, "=")
			o, err := long(table, name)
			if err != nil {
				return nil, nil, err
			}
			switch {
			case o.takes == nothing && has:
				return nil, nil, usagef("option --%s takes no value", o.long)
			case o.takes == value && !has:
				if len(args) == 0 {
					return nil, nil, usagef("option --%s needs a value", o.long)
				}
				text, args = args[0], args[1:]
			}
			opts = append(opts, given{o, text})
			continue
		}
		for cluster := arg[1:]; cluster != ""; {
			letter := cluster[:1]
			cluster = cluster[1:]
			at := slices.IndexFunc(table, func(o option) bool { return o.short == letter })
			if at < 0 {
				return nil, nil, usagef("option -%s is not known", letter)
			}
			o, text := &table[at], ""
			switch {
			case o.takes == optional:
				text, cluster = cluster, ""
			case o.takes == value && cluster != "":
				text, cluster = cluster, ""
			case o.takes == value:
				if len(args) == 0 {
					return nil, nil, usagef("option -%s needs a value", letter)
				}
				text, args = args[0], args[1:]
			}
			opts = append(opts, given{o, text})
		}
	}
	return opts, nil, nil
}

// long finds an option by its name, or by the beginning that only it has.
func long(table []option, name string) (*option, error) {
	var found []*option
	for i := range table {
		o := &table[i]
		if o.long == name {
			return o, nil
		}
		if o.long != "" && strings.HasPrefix(o.long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return nil, usagef("option --%s is not known", name)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, o := range found {
		names = append(names, "--"+o.long)
	}
	return nil, usagef("option --%s may be %s", name, strings.Join(names, ", "))
}

// check refuses options that gantry cannot honour, and returns notes on those that make no difference.
func check(opts []given) (notes []string, err error) {
	for _, o := range opts {
		switch {
		case o.refuse != "":
			return nil, usagef("%s: %s", o.name(), o.refuse)
		case o.report != "":
			notes = append(notes, fmt.Sprintf("%s has no effect: %s", o.name(), o.report))
		}
	}
	return notes, nil
}
