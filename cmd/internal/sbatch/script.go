package sbatch

import (
	"bytes"
	"fmt"
	"strings"
)

// directive begins the lines of a script that have options.
const directive = "#SBATCH"

// directives reads the options of a script: they are in the comments before its first command.
func directives(script []byte, where string) (opts []given, err error) {
	for n, line := range bytes.Split(script, []byte("\n")) {
		text := strings.TrimLeft(string(line), " \t")
		if text != "" && text[0] != '#' {
			break
		}
		rest, ok := strings.CutPrefix(string(line), directive)
		if !ok {
			continue
		}
		words, err := words(rest)
		var found []given
		if err == nil {
			found, err = only(sbatchOptions, words)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", where, n+1, err)
		}
		for _, o := range found {
			switch o.long {
			// which only a command line has
			case "wrap", "help", "usage", "version", "parsable", "quiet", "verbose":
			default:
				opts = append(opts, o)
			}
		}
	}
	return opts, nil
}

// words splits a line as Slurm does: at blanks outside of quotes; \ takes the next character as it is, also in quotes;
// # outside of quotes begins a comment, also within a word. Empty words do not count.
func words(text string) (out []string, err error) {
	var b strings.Builder
	var quote byte
	end := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
		}
		b.Reset()
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			end()
			return out, nil
		case strings.IndexByte(" \t\r\v\f", c) >= 0:
			end()
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c without its end", quote)
	}
	end()
	return out, nil
}

// shebang is the program of the first line and the one argument that the kernel would give it.
func (j *Job) shebang() (program, argument string) {
	line, _, _ := bytes.Cut(j.Script, []byte("\n"))
	program = strings.TrimSpace(strings.TrimPrefix(string(line), "#!"))
	if i := strings.IndexAny(program, " \t"); i >= 0 {
		program, argument = program[:i], strings.TrimSpace(program[i:])
	}
	return program, argument
}
