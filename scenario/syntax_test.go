package scenario_test

import (
	"strings"
	"testing"

	"gantry/scenario"
)

func TestSyntaxErrorsSayWhatToDo(t *testing.T) {
	for text, says := range map[string]string{
		"nodes:\n\t- a":          "line 2: not YAML: found character that cannot start any token; indent with spaces",
		"nodes: [{}":             "close what a bracket or brace opened",
		"nodes: *a":              "write &NAME",
		"name: a\n  nodes: []\n": "line 2: not YAML: mapping values are not allowed in this context; indent keys",
	} {
		_, err := scenario.ReadCluster(strings.NewReader(text), "c.yaml")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}
