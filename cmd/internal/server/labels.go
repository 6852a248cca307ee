package server

import (
	"encoding/json"
	"strconv"
	"strings"

	"gantry/cmd/api"
	"gantry/executor"
)

// options are the options of a submission in the log, beside its definition. sqlite/FORMAT.md describes them. All but
// labels and secrets are of single tasks.
type options struct {
	Workflow string                `json:"workflow,omitempty"` // as its user calls it
	Key      string                `json:"key,omitempty"`
	After    []executor.Dependency `json:"after,omitempty"`
	AtMost   int                   `json:"at_most,omitempty"` // of its request that are under way at once
	Labels   api.Labels            `json:"labels,omitempty"`
	Secrets  string                `json:"secrets,omitempty"` // the key below which they are kept
	Reads    []string              `json:"reads,omitempty"`   // absolute paths, as far as they are known
	Writes   []string              `json:"writes,omitempty"`
}

// text is "" where there is nothing to keep.
func (o *options) text() string {
	text, _ := json.Marshal(o) // texts can be written
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// readOptions reads them again; the zero value if they are damaged.
func readOptions(text string) (o options) {
	if text == "" || json.Unmarshal([]byte(text), &o) != nil {
		return options{}
	}
	return o
}

// waitsFor says which submissions a single task comes after; "" if none.
func (o *options) waitsFor() string {
	var all []string
	for _, d := range o.After {
		text := strconv.FormatInt(d.ID, 10)
		switch {
		case d.Ended:
			text += " in whatever way it ends"
		case d.Failed:
			text += " if that fails"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return "it comes after " + strings.Join(all, ", ")
}

func checkLabels(labels api.Labels) error {
	size := 0
	for name, text := range labels {
		size += len(name) + len(text)
	}
	if len(labels) > api.MaxLabels || size > api.MaxLabelBytes {
		return invalidf("a submission may have %d labels of %d bytes in all, not %d of %d", api.MaxLabels,
			api.MaxLabelBytes, len(labels), size)
	}
	return nil
}
