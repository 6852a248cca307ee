package trace

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// parseArguments parses a text as bash does the arguments of a command. The error says in a few words which action of
// bash gantry does not do: run another program, or redirect.
func parseArguments(text string) (words []*syntax.Word, err error) {
	for w, err := range syntax.NewParser(syntax.KeepComments(false)).WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return nil, argumentsError(text, err)
		}
		words = append(words, w)
	}
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ParamExp:
				if name := n.Param.Value; name == "$" || name == "!" {
					err = fmt.Errorf("$%s, the number of a process, which gantry does not know", name)
				}
			case *syntax.CmdSubst:
				err = errors.New("a command substitution, which gantry does not run")
			case *syntax.ProcSubst:
				err = errors.New("a process substitution, which gantry does not run")
			}
			return err == nil
		})
	}
	return words, err
}

func argumentsError(text string, err error) error {
	var parse syntax.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	if strings.Contains(parse.Text, "without closing quote") {
		return errOpenQuote
	}
	at := int(min(uint(len(text)), parse.Pos.Offset()))
	rest := strings.TrimSpace(text[at:])
	if end := strings.IndexAny(rest, " \t\n"); end > 0 {
		rest = rest[:end]
	}
	if rest != "" && strings.ContainsAny(rest[:1], "<>|&;()") {
		return fmt.Errorf("%q outside of quotes, which is for a shell: quote it, or use the stdin, stdout and stderr "+
			"of the job", rest)
	}
	return errors.New(parse.Text)
}

// FixedArguments returns the words of a text, and whether they are the same in every directory and environment that has
// the variables of env.
func FixedArguments(text string, env []string) (words []string, fixed bool, err error) {
	if !strings.ContainsAny(text, "\\\"'$`|&;<>()#*?[~{!\n") { // most
		return strings.Fields(text), true, nil
	}
	parsed, err := parseArguments(text)
	if err != nil {
		return nil, false, err
	}
	fixed = true
	values := expand.ListEnviron(env...)
	var look func(n syntax.Node) bool
	look = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			v := values.Get(n.Param.Value)
			fixed = fixed && v.IsSet() && !n.Excl && n.Slice == nil && n.Index == nil && n.Param.Value != "PWD" &&
				!strings.ContainsAny(v.String(), "*?[")
		case *syntax.ArithmExp:
			fixed = false
		case *syntax.SglQuoted:
			return false
		case *syntax.DblQuoted:
			for _, part := range n.Parts {
				if _, lit := part.(*syntax.Lit); !lit {
					syntax.Walk(part, look)
				}
			}
			return false
		case *syntax.Lit:
			fixed = fixed && !strings.ContainsAny(n.Value, "*?[~")
		}
		return fixed
	}
	for _, w := range parsed {
		syntax.Walk(w, look)
	}
	if !fixed {
		return nil, false, nil
	}
	words, err = expand.Fields(&expand.Config{Env: values}, parsed...)
	return words, true, err
}

// ExpandArguments returns the words of a text of arguments as bash does in an environment and a directory. The
// environment has entries NAME=value, of which the last of a name counts.
func ExpandArguments(text string, env []string, dir string) ([]string, error) {
	parsed, err := parseArguments(text)
	if err != nil {
		return nil, err
	}
	values := map[string]string{"?": "0", "#": "0"}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	values["PWD"] = dir
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, name+"="+value)
	}
	return expand.Fields(&expand.Config{Env: expand.ListEnviron(pairs...), ReadDir2: os.ReadDir}, parsed...)
}
