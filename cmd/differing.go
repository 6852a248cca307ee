package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
)

// settingOf names the settings whose flag is not called as they are in the log.
var settingOf = map[string]string{"mount": "mounts", "resource": "tokens", "need": "needs",
	"network": "networks", "secret": "secrets",
	"env-file": "env", "retry": "retries",
	"startup": "startup_ns", "grace": "grace_ns", "max-output": "max_output_bytes", "disk": "disk_bytes",
	"tmp":    "tmp_bytes",
	"bundle": "bundle_ns"}

// notKept are flags of gantry serve that do not say how a run began: they hold for this process.
var notKept = []string{"name", "dir", "quiet", "strict", "on-end", "oversubscribe", "watch", "port", "slurm-job",
	"group", "tenant", "tenant-limit"}

// differing lists the given flags that a run under way does not follow, with the values that hold instead.
func differing(c *cli.Context, run string, given, kept *session.Settings) (all []string, err error) {
	var of [2]map[string]any
	for i, s := range []*session.Settings{given, kept} {
		if err := json.Unmarshal(s.Encode(), &of[i]); err != nil {
			return nil, err
		}
	}
	was := map[string][]string{} // flags, by setting
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		if slices.Contains(notKept, name) || !c.IsSet(name) {
			continue
		}
		key := settingOf[name]
		if key == "" {
			key = strings.ReplaceAll(name, "-", "_")
		}
		if !reflect.DeepEqual(of[0][key], of[1][key]) {
			was[key] = append(was[key], "--"+name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		text := fmt.Sprintf("%s: run %s continues with ", strings.Join(was[key], ", "), run)
		switch key {
		case "policy":
			text += fmt.Sprintf("%s; gantry policy set %s changes it", kept.Policy, given.Policy)
		case "cluster":
			text += "the nodes that it began with, as far as they are still there; gantry node changes them"
		default:
			text += "what it began with"
			switch v := of[1][key].(type) {
			case string, float64, bool:
				text += fmt.Sprintf(", %v", v)
			}
			text += ". To change that, end it with gantry drain and start a new one"
		}
		all = append(all, text)
	}
	return all, nil
}
