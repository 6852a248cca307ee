package trace

import (
	"errors"
	"strings"
)

var errOpenQuote = errors.New("a quote is not closed")

// splitWords splits a command line into words by the quoting rules of the POSIX shell: '…', "…" and \. Nothing is
// expanded, and operators are ordinary characters.
func splitWords(line string) ([]string, error) {
	var words []string
	var w strings.Builder
	in := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if in {
				words, in = append(words, w.String()), false
				w.Reset()
			}
		case '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errOpenQuote
			}
			w.WriteString(line[i+1 : i+1+end])
			i, in = i+1+end, true
		case '"':
			in = true
			for i++; ; i++ {
				if i >= len(line) {
					return nil, errOpenQuote
				}
				if line[i] == '"' {
					break
				}
				if line[i] == '\\' && i+1 < len(line) && strings.IndexByte("\"\\$`", line[i+1]) >= 0 {
					i++
				}
				w.WriteByte(line[i])
			}
		case '\\':
			if i+1 < len(line) {
				i++
			}
			w.WriteByte(line[i])
			in = true
		default:
			w.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, w.String())
	}
	return words, nil
}

// words splits the arguments of a task; where quotes are not closed it splits at blanks, with a warning.
func (b *builder) words(line int, task, text string) []string {
	ws, err := splitWords(text)
	if err != nil {
		b.faults.Warn("open-quote", line, task, "task %s: arguments: %v; split at blanks", task, err)
		ws = strings.Fields(text)
	}
	b.keep(32*len(ws) + len(text))
	return ws
}

// operators are the words that only a shell gives a meaning: a list of arguments that holds one is a command line.
var operators = map[string]bool{">": true, ">>": true, "<": true, "<<": true, "|": true, "||": true, "&&": true,
	"&": true, ";": true, "1>": true, "2>": true, "2>>": true, "&>": true, "2>&1": true, ">&": true}

// needsShell reports whether a shell would do more with the text than split it into words.
func needsShell(text string) bool { return strings.ContainsAny(text, "|&;<>()$`\n*?[~") }
