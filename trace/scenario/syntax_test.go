package scenario_test

import (
	"strings"
	"testing"

	"gantry/trace/scenario"
)

func TestSyntaxErrorsSayWhatToDo(t *testing.T) {
	for text, says := range map[string]string{
		"nodes:\n\t- a":           "line 2: not YAML: found character that cannot start any token; indent with spaces",
		"nodes: [{}":              "close what a bracket or brace opened",
		"nodes: *a":               "write &NAME",
		"nodes: [":                "line 2: not YAML: did not find expected node content; close what a bracket",
		"nodes: []\n---\nname: b": "line 2: a second YAML document begins here: write each into a file of its own",
		"nodes: []\n---\nb: [}\n": "line 3: not YAML",
		"nodes: []\n{a: b}: 1\n":  "line 2: the cluster: a mapping is no key: a key is a text",
		"nodes: []\n[a]: 1\n":     "line 2: the cluster: a list is no key",
		"nodes: []\n~: 1\n":       "line 2: the cluster: null is no key",
		"name: a\n  nodes: []\n":  "line 2: not YAML: mapping values are not allowed in this context; indent keys",
	} {
		_, err := scenario.ReadCluster(strings.NewReader(text), "c.yaml")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), `""`) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}
