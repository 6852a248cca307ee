package executor

import (
	"fmt"
	"slices"
	"strings"

	"gantry/trace"
)

// CheckNetwork reads a rule of networks: outbound, asked (if their workflow asks for one) or none, for all commands, or
// with PATTERN= for those whose task or type has a name that matches the glob.
func CheckNetwork(rule string) error {
	return checkRule(rule, func(network string) error {
		if !slices.Contains([]string{"outbound", "asked", "none"}, network) {
			return fmt.Errorf("%q is outbound, asked or none, or PATTERN=outbound with a pattern for names or types "+
				"of tasks", rule)
		}
		return nil
	})
}

// Networked reports whether the command of a task has a network by the last rule that matches it. Without rules it has
// none.
func Networked(rules []string, t *trace.Task) bool {
	network := ruled(rules, t, "none")
	return network == "outbound" || network == "asked" && t.Network
}

// NetworkHint says that a failure may come of the lack of a network, by the last words of a program; "" if not.
func NetworkHint(words string) string {
	words = strings.ToLower(words)
	for _, sign := range []string{"network is unreachable", "network unreachable", "network is down", "bad address '",
		"resolve host", "resolve proxy", "failure resolving", "failed to resolve", "unable to resolve",
		"name resolution", "name or service not known", "no such host", "unknown host", "unknownhost",
		"failed to lookup address", "enotfound", "eai_again", "nslookup: write to", "no servers could be reached",
		"communications error to", "dial tcp: lookup", "could not connect to the endpoint",
		"unable to find the server"} {
		if strings.Contains(words, sign) {
			return "it has no network: --network outbound, or --network PATTERN=outbound, gives tasks one"
		}
	}
	return ""
}
