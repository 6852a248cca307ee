package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Strict stands for the shell of commands of which nobody says otherwise: /bin/sh that ends at the first program that
// fails (-e), also at one in a pipe if it has the option pipefail.
const Strict = "strict"

// strictly makes a shell strict. Where set does not know the option, "command" keeps the shell from ending.
const strictly = "set -e; command set -o pipefail 2>/dev/null || :; "

// The kernel's bounds of the arguments and variables that a program is started with: of each one, and of all together.
// The latter is a quarter of the usual limit of the stack, less room for the variables of an image.
const (
	maxArgument  = 128<<10 - 1
	maxArguments = 2<<20 - 64<<10
)

// ShellWords reads the words of a shell for commands, such as "bash -euo pipefail", or Strict.
func ShellWords(text string) ([]string, error) {
	words, err := splitWords(text)
	if err == nil && (len(words) == 0 || words[0] == "" || strings.ContainsRune(text, 0)) {
		err = errors.New(`name a program that takes -c, such as sh or "bash -euo pipefail"`)
	}
	return words, err
}

// quoted returns a text that ShellWords reads as these words.
func quoted(words []string) string {
	text := ""
	for _, w := range words {
		text += " '" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return text[1:]
}

// script returns a command for a shell: the shell of --shell, else the shell that the file names.
func (b *builder) script(line int, task, command, shell string) []string {
	shell = cmp.Or(b.opt.Shell, shell)
	if shell == "" {
		return []string{command}
	}
	words, err := ShellWords(shell)
	if err != nil {
		b.faults.Fail("shell", line, task, "the shell %q of task %s: %v", shell, task, err)
	}
	b.keep(40*len(words) + len(shell))
	return append([]string{command}, words...)
}

// Script is the text that the shell of a command reads. The command is a script and the words of its shell; none:
// /bin/sh.
func Script(command []string) string {
	if slices.Equal(command[1:], []string{Strict}) {
		return strictly + command[0]
	}
	return command[0]
}

// ShellArgv is how the shell of a command is started. A script that cannot be an argument is in the file.
func ShellArgv(command []string, file string) []string {
	words := slices.Clone(command[1:])
	if len(words) == 0 || words[0] == Strict {
		words = []string{"/bin/sh"}
	}
	if script := Script(command); len(script) <= maxArgument && utf8.ValidString(script) {
		return append(words, "-c", script)
	}
	return append(words, file)
}

// Bounds returns why the kernel, or a container engine, would not start a program with these arguments and variables.
func Bounds(argv, env []string) error {
	all := 0
	for i, s := range slices.Concat(argv, env) {
		all += len(s) + 1 + 8 // and its address
		text, ends := utf8.ValidString(s), strings.ContainsRune(s, 0)
		if len(s) <= maxArgument && text && !ends {
			continue
		}
		what := fmt.Sprintf("argument %d", i)
		if name, _, _ := strings.Cut(s, "="); i >= len(argv) {
			what = "the variable " + name[:min(len(name), 100)] + ", with its name,"
		}
		if ends {
			return fmt.Errorf("%s has a NUL character, where the kernel ends it: leave it out, or hand it over in a "+
				"file", what)
		}
		if !text {
			return fmt.Errorf("%s is no UTF-8, and container engines take nothing else: convert it, or hand it "+
				"over in a file", what)
		}
		return fmt.Errorf("%s has %d bytes, and the kernel takes %d: hand it over in a file", what, len(s), maxArgument)
	}
	if all > maxArguments {
		return fmt.Errorf("its arguments and environment take %d bytes, and the kernel takes about %d: hand them over "+
			"in a file", all, maxArguments)
	}
	return nil
}

// Bounded is Bounds of the arguments and variables of a task in an environment, as far as known before it runs.
func (t *Task) Bounded(env []string) error {
	switch {
	case t.Shell:
		return Bounds(ShellArgv(t.Command, ""), env)
	case t.Expand:
		words, _, err := FixedArguments(t.Command[1], env) // none if they depend on files or the image
		if err != nil {
			return err
		}
		return Bounds(append(t.Command[:1:1], words...), env)
	}
	return Bounds(t.Command, env)
}

// bounded notes an obstacle for each task that the kernel would not start.
func (b *builder) bounded() {
	for i := range b.wf.Tasks {
		if t := &b.wf.Tasks[i]; len(t.Command) > 0 {
			if err := t.Bounded(t.Env); err != nil {
				b.obstacle(t.Line, t.ID, "%v", err)
			}
		}
	}
}
