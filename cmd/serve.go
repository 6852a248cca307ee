package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/serve"
	"gantry/cmd/internal/session"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run workflows that are handed in while it runs",
		Description: `Takes workflows from gantry submit, plans them online with one policy, and runs them as gantry
run does. It is one run with one log. It ends when it is drained. Started again in the same directory it continues,
after Ctrl-C, kill -9 or a crash too: all acknowledged work is in the log, running containers are adopted, and
the settings are those of the run.

   gantry serve --cluster nodes.yaml --policy rm-dcwf
   gantry submit montage.dax      from another terminal, in the same directory
   gantry queue                   work that runs and waits
   gantry drain                   take no more work, end when all is done

Only the user who started it may hand in work: the socket, gantry.sock in the gantry directory, is that user's. Started
by root with --group NAME, it serves the members of that group, and runs the work of each with the rights of that user.

Ctrl-C once lets running tasks end and starts no more, twice stops them, three times kills them.

Exit codes: 0 drained, 2 wrong command line, 3 invalid input, 4 host or Docker not usable, 6 internal error, 75 another
gantry serves the directory, 130 stopped, or drained at once with work left; start it again to continue.`,
		Flags: slices.Concat(planFlags(), givenFlags(""), shared("network"), estimateFlags(runEstimator),
			containerFlags(false), usersFlags()),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Usagef("serve takes no workflows: hand them in with gantry submit")
			}
			return serveDir(c)
		},
	}
}

func serveDir(c *cli.Context) error {
	set, err := readRunSettings(c)
	if err != nil {
		return err
	}
	if session.OnNodes(set.Runtime) {
		return exit.Usagef("--runtime %s: gantry serve runs tasks on this host; gantry run uses that runtime",
			set.Runtime)
	}
	if err := refuseIdle(c, set, session.Anything()); err != nil {
		return err
	}
	set.Serve = true
	if c.IsSet("group") && c.String("group") == "" {
		return exit.Usagef("--group: name a group, or leave --group out to serve yourself")
	}
	with := serve.Options{Group: c.String("group"), Tenants: c.StringSlice("tenant"),
		Why: verdict, Differing: func(run string, kept *session.Settings) ([]string, error) {
			return differing(c, run, set, kept)
		}}
	return serve.Run(c.Context, set, sessionOptions(c, c.String("name")), with)
}

// settingOf names the settings whose flag is not called as they are in the log.
var settingOf = map[string]string{"mount": "mounts", "resource": "tokens", "need": "needs",
	"network": "networks", "secret": "secrets",
	"env-file": "env", "retry": "retries",
	"startup": "startup_ns", "grace": "grace_ns", "max-output": "max_output_bytes", "disk": "disk_bytes",
	"tmp": "tmp_bytes"}

// notKept are flags of gantry serve that do not say how a run began: they hold for this process.
var notKept = []string{"name", "dir", "quiet", "strict", "on-end", "oversubscribe", "watch", "port", "slurm-job",
	"group", "tenant"}

// differing lists the given flags that a run under way does not follow, with the values that hold instead.
func differing(c *cli.Context, run string, given, kept *session.Settings) (all []string, err error) {
	var of [2]map[string]any
	for i, s := range []*session.Settings{given, kept} {
		if err := json.Unmarshal(s.Encode(), &of[i]); err != nil {
			return nil, err
		}
	}
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		key := cmp.Or(settingOf[name], strings.ReplaceAll(name, "-", "_"))
		if slices.Contains(notKept, name) || !c.IsSet(name) || reflect.DeepEqual(of[0][key], of[1][key]) {
			continue
		}
		text := fmt.Sprintf("--%s: run %s continues with ", name, run)
		if key == "cluster" {
			all = append(all, text+"the nodes that it began with; gantry node changes them")
			continue
		}
		text += "the value that it began with"
		switch v := of[1][key].(type) {
		case string, float64, bool:
			text += fmt.Sprintf(", %v", v)
		}
		all = append(all, text+". To change that, end it with gantry drain and start a new one")
	}
	return all, nil
}
