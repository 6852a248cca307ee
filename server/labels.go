package server

import (
	"encoding/json"
	"slices"
	"strconv"

	"gantry/executor"
	"gantry/server/api"
	"gantry/sqlite"
)

// options is what the log keeps of how a submission is to be treated, beside its definition.
type options struct {
	Labels api.Labels `json:"labels,omitempty"`
}

// optionsOf is "" where there is nothing to keep.
func optionsOf(labels api.Labels) string {
	if len(labels) == 0 {
		return ""
	}
	text, _ := json.Marshal(options{labels}) // texts can be written
	return string(text)
}

// labelsOf reads what optionsOf wrote.
func labelsOf(text string) api.Labels {
	var o options
	if text == "" || json.Unmarshal([]byte(text), &o) != nil {
		return nil
	}
	return o.Labels
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

// identify gives a submission its number and its name in the run. Jobs, which work in directories of the host, find the
// number in their environment; of others no result may depend on it.
func identify(sub *executor.Submission, row *sqlite.Submitted) {
	sub.ID, sub.Name = row.ID, row.Name
	w := *sub.Workflow
	w.Tasks = slices.Clone(w.Tasks)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Container == 0 || !slices.ContainsFunc(w.Containers[t.Container-1].Mounts, inPlace) {
			continue
		}
		t.Env = executor.MergeEnv(t.Env, []string{api.ID + "=" + strconv.FormatInt(row.ID, 10)})
	}
	sub.Workflow = &w
}

func inPlace(mount string) bool { return executor.ParseMount(mount).InPlace }
