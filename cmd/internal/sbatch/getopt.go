package sbatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
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
	set            func(c *call, text string) error // nil: it changes nothing here
}

// honoured is an option such as "array,a=": its name, its letter, and = if it takes a value, [=] if it may.
func honoured(name string, set func(c *call, text string) error) option {
	o := option{set: set}
	if bare, ok := strings.CutSuffix(name, "[=]"); ok {
		name, o.takes = bare, optional
	} else if bare, ok := strings.CutSuffix(name, "="); ok {
		name, o.takes = bare, value
	}
	o.long, o.short, _ = strings.Cut(name, ",")
	return o
}

// into is an option whose value is a text, on one that is there or not.
func into(name string, to func(c *call) *string) option {
	return honoured(name, func(c *call, text string) error {
		*to(c) = text
		return nil
	})
}

// parsed is one whose value is read.
func parsed[T any](name string, read func(text string) (T, error), to func(c *call) *T) option {
	return honoured(name, func(c *call, text string) (err error) {
		*to(c), err = read(text)
		return err
	})
}

// flag is one without a value.
func flag(name string, set func(c *call)) option {
	return honoured(name, func(c *call, _ string) error {
		set(c)
		return nil
	})
}

// refused are options that are refused for a reason, reported those that have no effect.
func refused(reason, names string) (all []option) {
	for name := range strings.FieldsSeq(names) {
		o := honoured(name, nil)
		o.refuse = reason
		all = append(all, o)
	}
	return all
}

// ignored are options that change nothing here, as nothing differs by them.
func ignored(names string) []option { return refused("", names) }

func reported(reason, names string) []option {
	all := ignored(names)
	for i := range all {
		all[i].report = reason
	}
	return all
}

// Ask is a command line that asks for something else than the command.
type Ask uint8

const (
	Submit Ask = iota
	Help
	Version
)

func asks(a Ask, names string) (all []option) {
	for name := range strings.FieldsSeq(names) {
		all = append(all, flag(name, func(c *call) { c.Ask = a }))
	}
	return all
}

// call is a command line as far as it is read.
type call struct {
	*Request
	*Job
	*Queue
	*Account
	*Cancel
	me   string
	host Host
	now  time.Time
	// Values that only mean something together.
	mem, memPerCPU, nodes                string
	tasksPerNode, minCPUs                int
	gpus, gpusPerNode, gpusPerTask, gres int
	format                               string
	parse                                func(format string) ([]field, error)
}

// Request is what command lines have in common.
type Request struct {
	Ask    Ask
	Select Select
	Notes  []string // on options without effect, and why
}

// take takes over options, of which later ones count more, until one asks for something else.
func (c *call) take(opts []given) error {
	for _, o := range opts {
		switch {
		case o.refuse == noGPU && none(last(opts, o.long)):
		case o.refuse != "":
			return fmt.Errorf("%s: %s", o.name(), o.refuse)
		case o.report != "":
			c.Notes = append(c.Notes, fmt.Sprintf("%s has no effect: %s", o.name(), o.report))
		case o.set != nil:
			if err := o.set(c, o.value); err != nil {
				return fmt.Errorf("%s: %w", o.name(), err)
			}
		}
		if c.Ask != Submit {
			return nil
		}
	}
	return nil
}

// last is the value of an option that counts: the one that was given last.
func last(opts []given, name string) (text string) {
	for _, o := range opts {
		if o.long == name {
			text = o.value
		}
	}
	return text
}

// none reports whether a list of resources, such as gpu:0 or tesla:0, asks for none of any.
func none(list string) bool {
	return !slices.ContainsFunc(strings.Split(list, ","), func(one string) bool {
		n := one[strings.LastIndexAny(one, ":=")+1:]
		return one != "" && !strings.EqualFold(one, "none") && (n == "" || strings.Trim(n, "0") != "")
	})
}

// gpus reads how many thousandths of GPUs a list asks for: N GPUs, or of generic resources gpu, gpu:N, and mps:N for
// hundredths of one.
func gpus(list string) (all int, err error) {
	for one := range strings.SplitSeq(list, ",") {
		n, each, err := 1, 1000, error(nil)
		if part, ok := strings.CutPrefix(one, "mps:"); ok {
			each = 10
			n, err = strconv.Atoi(part)
		} else if one != "gpu" {
			n, err = strconv.Atoi(strings.TrimPrefix(one, "gpu:"))
		}
		switch {
		case none(one):
		case err != nil || n < 0 || n > 1<<20:
			return 0, fmt.Errorf("%q: %s", one, noGPU)
		default:
			all += n * each
		}
	}
	return all, nil
}

// fromEnv are the options that variables of the environment stand for, such as "SBATCH_GPUS gpus".
func fromEnv(table []option, variables string, env func(string) (string, bool)) (opts []given) {
	for pair := range slices.Chunk(strings.Fields(variables), 2) {
		if text, ok := env(pair[0]); ok {
			o, err := long(table, pair[1])
			if err != nil {
				panic(err) // the table has it
			}
			opts = append(opts, given{o, text})
		}
	}
	return opts
}

// only reads a command line that has options and no arguments; a question for help counts behind an argument, too.
func only(table []option, args []string) ([]given, error) {
	opts, rest, err := getopt(table, args)
	if err != nil || len(rest) == 0 {
		return opts, err
	}
	if more, err := only(table, rest[1:]); err == nil && has(more, "help") {
		return more, nil
	}
	return opts, fmt.Errorf("%q is no option", rest[0])
}

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
				return nil, nil, fmt.Errorf("option --%s takes no value", o.long)
			case o.takes == value && !has:
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("option --%s needs a value", o.long)
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
				return nil, nil, fmt.Errorf("option -%s is not known", letter)
			}
			o, text := &table[at], ""
			switch {
			case o.takes == optional:
				text, cluster = cluster, ""
			case o.takes == value && cluster != "":
				text, cluster = cluster, ""
			case o.takes == value:
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("option -%s needs a value", letter)
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
		return nil, fmt.Errorf("option --%s is not known", name)
	case 1:
		return found[0], nil
	}
	var names []string
	for _, o := range found {
		names = append(names, "--"+o.long)
	}
	return nil, fmt.Errorf("option --%s may be %s", name, strings.Join(names, ", "))
}
