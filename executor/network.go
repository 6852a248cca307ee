package executor

import (
	"fmt"
	"path"
	"strings"

	"gantry/trace"
)

// CheckNetwork reads a rule of networks: outbound or none, for all commands, or PATTERN=outbound, PATTERN=none for
// those whose task or type has a name that matches the glob.
func CheckNetwork(rule string) error {
	pattern, network := ruleOf(rule)
	if network != "outbound" && network != "none" {
		return fmt.Errorf("%q is outbound or none, or PATTERN=outbound with a pattern for names or types of tasks",
			rule)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q: %w of names: [a-z], ? and * are known", rule, err)
	}
	return nil
}

// Networked reports whether the command of a task has a network by the last rule that matches it. Without rules it has
// none.
func Networked(rules []string, t *trace.Task) (yes bool) {
	for _, rule := range rules {
		if pattern, network := ruleOf(rule); matches(pattern, t) {
			yes = network == "outbound"
		}
	}
	return yes
}

// NetworkHint says that a failure may come of the lack of a network, by the last lines of standard error; "" if not.
func NetworkHint(stderr string) string {
	text := strings.ToLower(stderr)
	for _, sign := range []string{"network is unreachable", "could not resolve", "couldn't resolve", "bad address",
		"name or service not known", "temporary failure in name resolution", "no such host", "unable to resolve",
		"failed to resolve", "network unreachable", "name resolution"} {
		if strings.Contains(text, sign) {
			return "tasks have no network, unless --network outbound, or --network PATTERN=outbound, gives them one " +
				"(docs/limits.md)"
		}
	}
	return ""
}
