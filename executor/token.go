package executor

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gantry/planner"
	"gantry/trace"
	"gantry/trace/scenario"
	"gantry/trace/spelling"
)

// Token is a resource of which a user declares that a run has so many.
type Token = scenario.Token

// ReadToken reads NAME=COUNT.
func ReadToken(text string) (x Token, err error) {
	name, count, _ := strings.Cut(text, "=")
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil || n == 0 || !scenario.TokenName(name) {
		return x, fmt.Errorf("%q: write NAME=COUNT, with letters, digits, -, _ and ., and a count from 1 to 65535",
			text)
	}
	return Token{Name: name, Count: uint16(n)}, nil
}

// CheckNeeds reads a rule of needs: [PATTERN=]NAME[:COUNT][,NAME...], or PATTERN=none.
func CheckNeeds(rule string) error {
	return checkRule(rule, func(needs string) error {
		_, err := readNeeds(needs)
		return err
	})
}

// checkRule reads a rule [PATTERN=]VALUE, and its value by a function.
func checkRule(rule string, read func(value string) error) error {
	pattern, value := ruleOf(rule)
	if err := read(value); err != nil {
		return err
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q: %w of names: [a-z], ? and * are known", rule, err)
	}
	return nil
}

// ruled is the value of the last rule that matches a task, or another one if none does.
func ruled(rules []string, t *trace.Task, otherwise string) string {
	for _, rule := range slices.Backward(rules) {
		if pattern, value := ruleOf(rule); matches(pattern, t) {
			return value
		}
	}
	return otherwise
}

// ruleOf splits [PATTERN=]VALUE.
func ruleOf(rule string) (pattern, value string) {
	if pattern, value, of := strings.Cut(rule, "="); of {
		return pattern, value
	}
	return "*", rule
}

// matches reports whether the name or the type of a task matches a pattern.
func matches(pattern string, t *trace.Task) bool {
	return slices.ContainsFunc([]string{t.ID, t.Name, t.Kind}, func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return ok || pattern == "*"
	})
}

func readNeeds(text string) (needs []Token, err error) {
	if text == "none" {
		return nil, nil
	}
	for _, part := range strings.Split(text, ",") {
		name, count, counted := strings.Cut(part, ":")
		n, err := uint64(1), error(nil)
		if counted {
			n, err = strconv.ParseUint(count, 10, 16)
		}
		if err != nil || n == 0 || !scenario.TokenName(name) {
			return nil, fmt.Errorf("%q: write NAME or NAME:COUNT, several with commas, or none", part)
		}
		needs = append(needs, Token{Name: name, Count: uint16(n)})
	}
	return needs, nil
}

// tokens are those that a task needs: by the last rule that matches it, else as its trace says.
func (a *Admitter) tokens(sub *Submission, t *trace.Task) (out planner.Tokens, err error) {
	text := NeededTokens(a.Needs, t)
	if text == "" {
		return out, nil
	}
	needs, err := readNeeds(text)
	if err != nil {
		return out, a.refuse(sub, t, "needs %v", err)
	}
	for _, need := range needs {
		i := slices.IndexFunc(a.Tokens, func(x Token) bool { return x.Name == need.Name })
		if i < 0 {
			var names []string
			for _, x := range a.Tokens {
				names = append(names, x.Name)
			}
			hint := ""
			if len(names) > 0 {
				hint = "; " + spelling.Hint(need.Name, names)
			}
			return out, a.refuse(sub, t, "needs %d of %s, of which there is none: --resource %s=COUNT says how many "+
				"there are%s", need.Count, need.Name, need.Name, hint)
		}
		if out[i] += need.Count; out[i] > a.Tokens[i].Count || out[i] < need.Count {
			return out, a.refuse(sub, t, "needs more of %s than there are: --resource %s=%d", need.Name, need.Name,
				a.Tokens[i].Count)
		}
	}
	return out, nil
}

// NeededTokens are those needs, as a trace writes them.
func NeededTokens(rules []string, t *trace.Task) string {
	if text := ruled(rules, t, t.Tokens); text != "none" {
		return text
	}
	return ""
}

// TokensThere are those that a planner has to be told.
func TokensThere(all []Token) (out planner.Tokens) {
	for i, x := range all {
		out[i] = x.Count
	}
	return out
}
