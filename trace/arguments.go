package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a text of arguments. The parser calls itself for each nested parenthesis, and Go ends a process whose stack
// is too large. Braces take the square of the length of their word, for each word that they become.
const (
	mostText     = 64 << 10 // bytes that are parsed
	mostBraces   = 20       // outside of quotes
	mostBraced   = 4096     // bytes of a word with braces
	mostExpanded = 4 << 20  // bytes of words, and of values of variables
)

// ofBash are the parameters that bash sets by itself.
var ofBash = strings.Fields("$ ! @ 0 - _ BASH BASHOPTS BASHPID BASH_VERSION DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID " +
	"GROUPS HOSTNAME HOSTTYPE IFS MACHTYPE OPTIND OSTYPE PPID PS4 RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID")

// parseArguments parses a text as bash does the arguments of a command that has these variables. The error says in a
// few words which action of bash gantry does not do: run another program, redirect, or set variables.
func parseArguments(text string, env []string) (words []*syntax.Word, err error) {
	if len(text) > mostText {
		return nil, fmt.Errorf("%d bytes with quotes, variables or patterns, and gantry expands %d: hand them over "+
			"in a file", len(text), mostText)
	}
	for w, err := range syntax.NewParser(syntax.KeepComments(false)).WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return nil, argumentsError(text, err)
		}
		words = append(words, w)
	}
	braces := 0
	for _, w := range words {
		before := braces
		for _, part := range w.Parts {
			if lit, ok := part.(*syntax.Lit); ok {
				braces += strings.Count(lit.Value, "{")
			}
		}
		if braces > mostBraces || braces > before && w.End().Offset()-w.Pos().Offset() > mostBraced {
			return nil, fmt.Errorf("more than %d braces outside of quotes, or a word of %d bytes with one: quote them",
				mostBraces, mostBraced)
		}
		var arithmetic uint // end of the expressions that the walk has met
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ParamExp:
				switch {
				case n.Repl != nil:
					err = errors.New("a replacement in a variable, which gantry does not do")
				case n.Excl:
					err = errors.New("an indirect variable (${!A}), which gantry does not do")
				default:
					err = cmp.Or(err, onlyBashKnows(n.Param.Value, env))
				}
			case *syntax.ArithmExp:
				arithmetic = max(arithmetic, n.End().Offset())
			case *syntax.Lit:
				if n.Pos().Offset() < arithmetic && syntax.ValidName(n.Value) { // variables need no $ there
					err = cmp.Or(err, onlyBashKnows(n.Value, env))
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

// onlyBashKnows is an error for a variable that bash sets by itself and the environment does not have.
func onlyBashKnows(name string, env []string) error {
	given := func(e string) bool { return strings.HasPrefix(e, name+"=") }
	if !slices.Contains(ofBash, name) || slices.ContainsFunc(env, given) {
		return nil
	}
	return fmt.Errorf("$%s, which only bash knows: give the task a variable of its own", name)
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
// the variables of env. Words of braces, which may be many, are not. The text may use other variables, too.
func FixedArguments(text string, env []string, other ...string) (words []string, fixed bool, err error) {
	if !strings.ContainsAny(text, "\\\"'$`|&;<>()#*?[~{!\n") { // most
		return strings.Fields(text), true, nil
	}
	parsed, err := parseArguments(text, slices.Concat(other, env))
	if err != nil {
		return nil, false, err
	}
	values := expand.ListEnviron(env...)
	if slices.ContainsFunc(parsed, func(w *syntax.Word) bool { return !fixedWord(w, values) }) {
		return nil, false, nil
	}
	words, err = expanded(&expand.Config{Env: values}, parsed)
	return words, true, err
}

// fixedWord reports whether a word is the same in every directory and environment that has these variables.
func fixedWord(w *syntax.Word, values expand.Environ) bool {
	fixed := true
	var look func(n syntax.Node) bool
	look = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			v := values.Get(n.Param.Value)
			fixed = fixed && v.IsSet() && n.Slice == nil && n.Index == nil && n.Param.Value != "PWD" &&
				!strings.ContainsAny(v.String(), "*?[")
		case *syntax.ArithmExp, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ExtGlob:
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
	syntax.Walk(w, look)
	split := *w
	return fixed && !syntax.SplitBraces(&split)
}

// ExpandArguments returns the words of a text of arguments as bash does in an environment and a directory. The
// environment has entries NAME=value, of which the last of a name counts. List lists the directories that patterns may
// match in; nil: patterns stay as they are.
func ExpandArguments(text string, env []string, dir string, list func(path string) ([]fs.DirEntry, error)) ([]string,
	error) {
	parsed, err := parseArguments(text, env)
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
	return expanded(&expand.Config{Env: expand.ListEnviron(pairs...), ReadDir2: list}, parsed)
}

func expanded(c *expand.Config, parsed []*syntax.Word) (words []string, err error) {
	all, env := 0, &boundedEnv{Environ: c.Env}
	c.Env = env
	for word, err := range expand.FieldsSeq(c, parsed...) {
		if err != nil {
			return nil, err
		}
		words = append(words, word)
		if all += len(word) + 1; max(all, env.taken) > mostExpanded {
			return nil, fmt.Errorf("they or their variables take more than %d bytes: hand them over in a file",
				mostExpanded)
		}
	}
	return words, nil
}

// boundedEnv is an environment whose variables are empty once mostExpanded bytes of values were taken.
type boundedEnv struct {
	expand.Environ
	taken int
}

func (e *boundedEnv) Get(name string) expand.Variable {
	v := e.Environ.Get(name)
	if e.taken += len(v.String()); e.taken > mostExpanded {
		return expand.Variable{}
	}
	return v
}
