package executor

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"gantry/trace"
)

// ScriptFile is the command of a task as a script, in its work directory.
const ScriptFile = "./.command.sh"

// Home is a variable of all programs.
const Home = "HOME=/tmp"

// CommandLine is the command of a task as it is started, in one line for bash. It is "" for an emulated task. Arguments
// that depend on files, or on variables that only the image may have, stay as the workflow has them.
func CommandLine(t *TaskSpec) string { return commandLine(t, true) }

func commandLine(t *TaskSpec, expand bool) string {
	line := ""
	switch {
	case t.Emulated():
		return ""
	case t.Shell:
		line = QuoteLine(trace.ShellArgv(t.Command, ScriptFile))
	case t.Expand && len(t.Command) > 1:
		line = QuoteLine(t.Command[:1]) + " " + t.Command[1]
		if expand {
			words, fixed, err := trace.FixedArguments(t.Command[1], append([]string{Home}, t.Env...))
			if fixed && err == nil {
				line = QuoteLine(append(t.Command[:1:1], words...))
			}
		}
		if hidden(line) {
			line = QuoteLine([]string{"bash", "-c", line})
		}
	default:
		line = QuoteLine(t.Command)
	}
	for _, x := range []struct{ sign, file string }{{"<", t.Stdin}, {">", t.Stdout}, {"2>", t.Stderr}} {
		switch {
		case x.file == "":
		case x.sign == "2>" && x.file == t.Stdout:
			line += " 2>&1"
		default:
			line += " " + x.sign + QuoteLine([]string{x.file})
		}
	}
	return line
}

// Written is the command of a task as its workflow has it, of several lines if it is a script; "" for an emulated task.
// It takes no more than the text itself.
func Written(t *TaskSpec) string {
	if t.Shell && !t.Emulated() && t.Stdin+t.Stdout+t.Stderr == "" {
		return strings.TrimSpace(t.Command[0])
	}
	return commandLine(t, false)
}

// QuoteLine is Quote with $'...', which bash reads, around an argument that would act on a terminal or begin a line.
func QuoteLine(argv []string) string {
	words := make([]string, len(argv))
	for i, s := range argv {
		words[i] = Quote([]string{s})
		if q, err := syntax.Quote(s, syntax.LangBash); hidden(s) && err == nil {
			words[i] = q
		}
	}
	return strings.Join(words, " ")
}

func hidden(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Quote makes a shell command line of argv.
func Quote(argv []string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-./:=,@%+", r)
	}
	var out []string
	for _, s := range argv {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
