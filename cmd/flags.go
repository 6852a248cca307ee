package cmd

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/session"
	"gantry/executor/container/fetch"
)

// startsDefault is the help of --starts.
const startsDefault = "as many as the host has cores, at least 3"

// shared are options that several commands take, by their names.
func shared(names string) (out []cli.Flag) {
	all := []cli.Flag{
		&cli.StringFlag{Name: "image", Usage: "container `IMAGE` of tasks whose trace names none; host: the programs " +
			"that are installed on this host (--runtime oci)"},
		&cli.BoolFlag{Name: "emulate", Usage: "emulate all tasks, also those with a command and an image"},
		&cli.StringSliceFlag{Name: "inputs", Usage: "`DIR` with input files of the workflows (may be repeated; " +
			"default: as catalogs say, else beside the workflow; emulated tasks get files of the sizes in the trace)"},
		&cli.StringSliceFlag{Name: "catalog", Usage: "`FILE` with catalogs or properties of Pegasus, which count " +
			"before those of the workflow (may be repeated; default: replicas.yml, transformations.yml, sites.yml " +
			"and pegasus.properties, beside the workflow or in the working directory)"},
		&cli.StringFlag{Name: "site", Usage: "take Pegasus transformations from `SITE` where catalogs have them on " +
			"several (default: the first with a container)"},
		&cli.BoolFlag{Name: "enforce-walltime", Usage: "take maxwalltime of Pegasus profiles (minutes) and " +
			"WALL_TIME of makeflows (seconds) as time limits of tasks"},
		&cli.BoolFlag{Name: "container-mounts", Usage: "let containers of Pegasus catalogs read the directories of " +
			"this host that they name"},
		&cli.StringFlag{Name: "checkpoint", Usage: "`SIZE` of checkpoints of emulated tasks, input (the size of the " +
			"largest input), or none (default: as the workload says, else 4KiB)"},
		&cli.StringFlag{Name: "preempt", Usage: "how to preempt tasks that cannot checkpoint, `WAY`: freeze, or " +
			"restart, which loses their work (default: as the workload says, else freeze)"},
		&cli.BoolFlag{Name: "repair", Usage: "repair traces as far as possible (see gantry check)"},
		maxInputFlag(new(byteSize)), defineFlag(new(definitions)),
		&cli.StringSliceFlag{Name: "network", Usage: "`[PATTERN=]outbound`: let all commands, or those of tasks " +
			"whose name or type matches, connect to other hosts (none: not; asked: those of which their " +
			"workflow says so; may be repeated, the last that matches counts); without a daemon it takes " +
			"slirp4netns", DefaultText: "none"},
		&cli.StringSliceFlag{Name: "results", Usage: "`PATTERN`: files whose names it matches are results, too, such " +
			"as '*.vcf' or 'calls/**' (may be repeated; default: files that no task reads)"},
		resultsDirFlag("at the end, over those of earlier runs; of several workflows each to DIR/WORKFLOW"),
		&cli.StringFlag{Name: "on-end", Usage: "run `COMMAND` with sh on this host when the run ends or stops, with " +
			"GANTRY_RUN, GANTRY_STATE, GANTRY_EXIT_CODE, GANTRY_TASKS, GANTRY_FAILED, GANTRY_RESULTS, " +
			"GANTRY_RUN_DIR, GANTRY_DIR and GANTRY_LOG in its environment; its exit code changes nothing"},
		&cli.BoolFlag{Name: "no-prediction", Usage: "do not simulate the run to predict its end"},
		&cli.StringFlag{Name: "host-model", Usage: "take how containers start, run and end on a host from `MODEL`: " +
			"this (as gantry calibrate measured), a file with a model, or none (default: this, if it was measured, " +
			"the cluster is one that this host can be, and --startup is not given)"},
		&cli.BoolFlag{Name: "watch", Usage: "serve a page that follows the run, and print its address (see gantry " +
			"watch)"},
		&cli.IntFlag{Name: "port", Usage: "serve the page at port `N` of this host (default: any that is free)"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing but errors"},
		&cli.BoolFlag{Name: "json", Usage: "print the summary as JSON, and no progress"},
	}
	for name := range strings.FieldsSeq(names) {
		i := slices.IndexFunc(all, func(f cli.Flag) bool { return f.Names()[0] == name })
		out = append(out, all[i])
	}
	return out
}

// planFlags are the flags of planning: those of run, simulate and serve.
func planFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "policy", Aliases: []string{"p"}, Value: "cpp",
			Usage: "scheduling `POLICY`, with parameters as name:key=value (gantry policies lists them), or " +
				"exec:./mine.py"},
		&cli.StringFlag{Name: "cluster", Aliases: []string{"c"},
			Usage: "virtual nodes from `FILE` (default: this host is one node, with its GPUs, less a tenth of its " +
				"memory)"},
		&cli.Float64Flag{Name: "time-scale", Value: 1, Usage: "multiply runtimes of emulated tasks by `FACTOR`: 0.1 " +
			"is ten times as fast"},
		&cli.Float64Flag{Name: "size-scale", Value: 1, Usage: "multiply file sizes and memory of emulated tasks by " +
			"`FACTOR`"},
		&cli.StringSliceFlag{Name: "retry", Usage: "`CLASS=N`: retry N times after an attempt that ended as CLASS, " +
			"one of " + session.RetryClasses() + " (may be repeated)"},
		&cli.IntFlag{Name: "retries", Aliases: []string{"T"},
			Usage: "short for --retry exit-code=`N` --retry output-missing=N"},
		&cli.BoolFlag{Name: "reject-late", Usage: "refuse workflows that cannot meet their deadlines: on arrival " +
			"(rm-dcwf, fifo, mrcp-rm:reserve=yes), or at their earliest start (mrcp-rm)"},
		&cli.StringSliceFlag{Name: "resource", Usage: "`NAME=COUNT`: the run has so many of a resource of your own, " +
			"such as licences (may be repeated)"},
		&cli.StringSliceFlag{Name: "need", Usage: "`[PATTERN=]NAME[:COUNT]`: tasks, or those whose name or type " +
			"matches, hold so many of a resource while they run (may be repeated; the last that matches counts)"},
		&cli.StringSliceFlag{Name: "gpus", Usage: "`[PATTERN=]N`: tasks of which their workflow does not say it, or " +
			"those whose name or type matches, hold N GPUs, or a part of one such as 0.5 (may be " +
			"repeated; the last that matches counts)"},
		&cli.BoolFlag{Name: "fit", Usage: "reduce the needs of a task to the largest node, instead of refusing the " +
			"workflow"},
		&cli.Uint64Flag{Name: "seed", Value: 1,
			Usage: "`SEED` of all random choices (a workload file may set its own)"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the run (default: a new one)"},
		dirFlag(),
	}, shared("image emulate quiet")...)
}

// readingFlags are the flags about workflows of run and simulate. Users of a server give theirs to gantry submit.
func readingFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.IntFlag{Name: "count", Usage: "take only the first `N` workflows to arrive"},
		&cli.IntFlag{Name: "repetition", Value: 1, Usage: "draw repetition `N` of a workload file, from 1 (gantry " +
			"experiment runs all)"},
		&cli.BoolFlag{Name: "fail-fast", Usage: "stop the run at the first task that fails for good (default: " +
			"independent branches continue)"},
	}, shared("inputs catalog site enforce-walltime checkpoint preempt repair max-input define json")...)
}

// containerFlags are the flags of runs in containers. Only run takes nodes of Slurm.
func containerFlags(onNodes bool) []cli.Flag {
	starts := "how many containers may be starting at the same time"
	defaultText := runtimeDefault
	if onNodes {
		defaultText = autoRuntime
		starts += " (with --runtime slurm the default is 4 per node)"
	}
	return append([]cli.Flag{
		&cli.BoolFlag{Name: "strict", Usage: "fail if this host cannot enforce a limit, instead of warning"},
		&cli.BoolFlag{Name: "oversubscribe", Usage: "accept a cluster larger than this host"},
		&cli.StringFlag{Name: "pull", Value: string(fetch.PullMissing),
			Usage: "pull images before the run, `WHEN`: missing (those that this host lacks), always, or never"},
		&cli.IntFlag{Name: "starts", DefaultText: startsDefault, Usage: starts},
		sizeFlag("max-output", "64MB", "keep the first `SIZE` of standard output and of standard error of each "+
			"attempt"),
		sizeFlag("disk", "", "limit the work directory and /tmp of each task to `SIZE` on disk"),
		sizeFlag("tmp", "", "keep /tmp of each task in memory, of `SIZE` (default: on disk)"),
		&cli.BoolFlag{Name: "reuse", Usage: "take over the outputs of earlier attempts in the log with the same " +
			"command, image, environment and contents of inputs"},
		&cli.BoolFlag{Name: "scratch", Usage: "delete each file that is no result as soon as its last reader has " +
			"ended well"},
		&cli.StringSliceFlag{Name: "cdi-dir", Usage: "find the GPUs of this host in files of CDI in `DIR` (may be " +
			"repeated; default: /etc/cdi and /var/run/cdi)"},
		&cli.DurationFlag{Name: "grace", Value: 10 * time.Second,
			Usage: "time between SIGTERM and SIGKILL when a task is stopped"},
		&cli.DurationFlag{Name: "startup", Value: dockerStartup, Usage: "estimated time to start a container, " +
			"for every task",
			DefaultText: "as gantry calibrate measured for such a task, else " + dockerStartup.String()},
		&cli.StringFlag{Name: "runtime", DefaultText: defaultText, Usage: runtimeUsage(!onNodes) + ", or auto " +
			"(without a daemon where this host can, else docker)"},
	}, shared("on-end host-model watch port")...)
}

func dirFlag() cli.Flag {
	return &cli.StringFlag{Name: "dir", Value: "gantry-runs", EnvVars: []string{"GANTRY_DIR"},
		Usage: "`DIR` with the log (gantry.sqlite) and a directory for each run"}
}

// homeOf is the directory of runs, as a path that holds anywhere.
func homeOf(c *cli.Context) string {
	dir := c.String("dir")
	if path, err := filepath.Abs(dir); err == nil { // else a relative one has to do
		return path
	}
	return dir
}

// givenFlags are those by which the user gives commands variables, secrets and directories of this host. Secrets are
// for all commands of a server or a submission.
func givenFlags(of string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "env", Usage: "set `NAME[=VALUE]` in the environment of all commands, over that " +
			"of the workflow; without a value it is that of gantry's own environment (may be repeated)"},
		&cli.StringSliceFlag{Name: "env-file", Usage: "set environment variables from a `FILE` of lines " +
			"NAME[=VALUE]; --env overrides it (may be repeated)"},
		&cli.StringSliceFlag{Name: "secret", Usage: "`NAME[=FILE]`: give all commands " + of +
			"a file /run/secrets/NAME with the content of FILE, or else the value of the environment " +
			"variable NAME (may be repeated)"},
		&cli.StringSliceFlag{Name: "mount", Usage: "`HOST:CONTAINER:ro`: let all commands read HOST, a file or " +
			"directory of this host, at the path CONTAINER (may be repeated)"},
		&cli.StringFlag{Name: "shell", Usage: "run commands of makeflows and WfFormat by `COMMAND` -c, such as " +
			"'bash -euo pipefail', or sh for makeflow's own behaviour (default: as the workflow says, else strict: " +
			"/bin/sh -e, with pipefail if it has that)"},
	}
}

// estimateFlags choose the estimates of runtimes; run and simulate share them.
func estimateFlags(usual string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "estimator", DefaultText: usual,
			Usage: "`NAME` of the source of runtime estimates: declared (the trace), learned[:N] (a model of up to N " +
				"runs of the same task type, of this run and of earlier runs on the same runtime and scales, over " +
				"the size of the input too, that each end of a task brings up to date; types that never ran take " +
				"the declared runtime, or else the mean of all tasks; N is 1000), corrected[:M] (declared, times " +
				"measured over declared of the last M tasks, on containers also those of earlier runs; M is " +
				"1000), trained[:MODEL[@VERSION]] (a model of " +
				"gantry predict, the latest by default; declared for unknown task types), oracle (the true runtime; " +
				"simulate only)"},
		&cli.StringFlag{Name: "predict-memory", Usage: "with --estimator trained: limit the memory of tasks to the " +
			"amount that costs least by the peaks that the model has seen. `AIM` says how bad it is that a task runs " +
			"out of memory: lean (the least memory held and lost), balanced (as bad as if ten usual tasks had held " +
			"their memory in vain; about one in a hundred fails) or safe (as if a hundred had). A task that failed " +
			"gets the largest amount seen, then at least what is declared"},
		&cli.StringFlag{Name: "errors", Value: "none", Usage: "make declared estimates wrong by `MODEL`: none, " +
			"static:F, random1:F (a factor for each workflow), random2:F (random seconds, scaled by --time-scale), " +
			"short:F (up to F seconds more or less, scaled too: shorter tasks are off by a larger factor), or " +
			"uniform:U (estimates stay, true runtimes vary); F and U are above 0 and at most 1000; without " +
			"--estimator they apply to all estimates"},
	}
}

// nodeFlags say which nodes of Slurm are used, and how.
func nodeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "slurm-job", Usage: "with --runtime slurm: use the allocation of job `ID` (default: " +
			"the one that gantry runs in)"},
		&cli.StringFlag{Name: "shared", Usage: "with --runtime slurm: `DIR` that all nodes share, for the files of " +
			"runs (default: --dir)"},
		&cli.StringFlag{Name: "node-runtime", Usage: "with --runtime slurm: the runtime of containers on " +
			"nodes, `NAME`: oci or docker (default: oci, else docker, as the node has it)"},
	}
}

// usersFlags are those of a server of several users.
func usersFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "group", Usage: "let the members of `GROUP`, by name or number, hand in work, which " +
			"runs with the rights of each (needs root; default: only the user who starts the server)"},
		&cli.StringSliceFlag{Name: "tenant", Usage: "with --group: the work of a user counts for a tenant, " +
			"`USER=TENANT`, by name or number; USER=* lets the user choose with submit --tenant (default: the " +
			"tenant is the user; may be repeated)"},
	}
}

func resultsDirFlag(when string) cli.Flag {
	return &cli.StringFlag{Name: "results-dir", Usage: "copy the results to `DIR` " + when}
}

// runtimeDefault is the help of flags that chosenRuntime reads.
const runtimeDefault = "docker; oci where no Docker Engine answers"

// runtimeUsage is the help of a flag that takes one of the names; with here, of those that run tasks on this host.
func runtimeUsage(here bool) string {
	var text []string
	for _, r := range session.Runtimes {
		if session.RealTime(r.Capabilities) && !(here && r.Cluster != nil) {
			text = append(text, r.Name+" ("+r.Does+")")
		}
	}
	return "`RUNTIME`: where tasks run: " + strings.Join(text, ", ")
}
