package cmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/container/slurm"
	"gantry/executor/container/slurm/node"
)

// slurmNodeCommand is the command of job steps of Slurm.
func slurmNodeCommand() *cli.Command {
	return &cli.Command{Name: "slurm-node", Hidden: true, Usage: "do the part of a node in a run on Slurm",
		ArgsUsage: "[RUN-DIRECTORY CONTAINER]",
		Description: `With --report it describes the node. Otherwise it runs a container as gantry
has described it in the directory of the run.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "runtime", Usage: "whose containers, `NAME`"},
			&cli.StringFlag{Name: "step", Usage: "`NAME` of this job step"},
			&cli.StringFlag{Name: "report", Usage: "describe the node in `FILE`"},
			&cli.BoolFlag{Name: "network", Usage: "tasks need a network"},
			&cli.StringFlag{Name: "images", Usage: "fetch the images of a `LIST`"},
			&cli.StringFlag{Name: "pull", Usage: "pull images `WHEN`"},
			&cli.BoolFlag{Name: "clear", Usage: "end the leftovers of the container by the job step of --step"},
			&cli.BoolFlag{Name: "secrets", Usage: "standard input begins with secrets"},
			&cli.BoolFlag{Name: "tidy", Usage: "remove control groups of the job that are empty"}},
		Action: func(c *cli.Context) error {
			switch {
			case c.IsSet("report"):
				return exit.Or(exit.Host, checkNode(c))
			case c.Bool("tidy"):
				if tree, err := cgroup.Open(cgroup.Root, false); err == nil {
					node.Tidy(tree, true)
				}
				node.DropSecrets(c.Args().First(), "")
				return nil
			}
			return exit.Or(exit.Host, runNode(c))
		}}
}

// taskProgram is the task emulator beside this program.
func taskProgram() string {
	self, _ := os.Executable() // Linux knows
	return filepath.Join(filepath.Dir(self), "gantry-task")
}

func nodeEngine(c *cli.Context, name string, w session.EngineWants) (container.Engine, *cgroup.Tree, error) {
	w.Binary = taskProgram()
	row := session.RuntimeNamed(name)
	if row == nil || row.Engine == nil {
		return nil, nil, exit.Usagef("--runtime %s makes no containers", name)
	}
	e, err := row.Engine(c.Context, w)
	if err != nil {
		return nil, nil, err
	}
	host, err := e.Host(c.Context)
	if err == nil {
		var tree *cgroup.Tree
		if tree, err = cgroup.Open(cmp.Or(host.Groups, cgroup.Root), host.Systemd); err == nil {
			return e, tree, nil
		}
	}
	e.Close()
	return nil, nil, err
}

func runNode(c *cli.Context) error {
	if c.NArg() != 2 {
		return exit.Usagef("node: name a run directory and a container")
	}
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signal.Ignore(unix.SIGPIPE)
	dir := filepath.Join(node.Steps(c.Args().Get(0)), c.String("step"))
	w := session.EngineWants{Dirs: []string{dir}}
	if c.Bool("clear") {
		node.DropSecrets(c.Args().Get(0), c.String("step"))
		e, _, err := nodeEngine(c, c.String("runtime"), w)
		if err == nil {
			defer e.Close()
			err = node.Clear(c.Context, c.Args().Get(0), e, c.Args().Get(1))
		}
		return err
	}
	if row := session.RuntimeNamed(c.String("runtime")); row != nil && row.Store {
		var err error
		if w.Store, err = session.OpenStore(); err != nil {
			return err
		}
		defer w.Store.Close()
	}
	e, tree, err := nodeEngine(c, c.String("runtime"), w)
	if err != nil {
		return err
	}
	defer e.Close()
	cfg := node.Config{RunDir: c.Args().Get(0), Step: c.String("step"), Engine: e, Tree: tree, In: os.Stdin,
		Out: os.Stdout, Stop: stop, Secrets: c.Bool("secrets"), Task: taskProgram()}
	cfg.Group, _ = node.Within(tree)
	return node.Run(c.Context, cfg, c.Args().Get(1))
}

// checkNode writes the abilities of this node where gantry looks for them.
func checkNode(c *cli.Context) error {
	r, path := &slurm.Report{Node: os.Getenv("SLURMD_NODENAME")}, c.String("report")
	wanted := session.NodeRuntimes
	if name := c.String("runtime"); name != "" {
		wanted = []string{name}
	}
	var why []string
	for _, name := range wanted {
		err := checkRuntime(c, r, name, session.EngineWants{Dirs: []string{filepath.Dir(path)}})
		if err == nil {
			break
		}
		why = append(why, err.Error())
	}
	if r.Runtime == "" {
		r.Failed = strings.Join(why, "; ")
	}
	return writeWhole(path, func(to io.Writer) error { return json.NewEncoder(to).Encode(r) })
}

// checkRuntime describes a runtime of this node, and fetches the images of the run.
func checkRuntime(c *cli.Context, r *slurm.Report, name string, w session.EngineWants) error {
	e, tree, err := nodeEngine(c, name, w)
	if err != nil {
		return err
	}
	host, err := e.Host(c.Context)
	e.Close()
	if err == nil && c.Bool("network") && host.NoNetwork != "" {
		err = errors.New("--network: " + strings.ReplaceAll(host.NoNetwork, "--runtime ", "--node-runtime "))
	}
	if err != nil {
		return err
	}
	r.Runtime, r.Facts = name, append(host.Facts, withinFact(tree))
	if err := fetchOnNode(c, r, w); err != nil {
		r.Failed, r.NoImage = err.Error(), errors.Is(err, fetch.ErrNoImage)
	}
	return nil
}

// withinFact says whether containers are below the limits of Slurm.
func withinFact(tree *cgroup.Tree) container.Fact {
	f := container.Fact{Name: "slurm-limits"}
	group, reason := node.Within(tree)
	defer node.Tidy(tree, false)
	if group == "" {
		f.Verdict, f.Evidence = container.No, "containers are not below the control group of their job step: "+reason
		f.Advice = "gantry's own limits hold them, Slurm's do not"
		return f
	}
	f.Verdict, f.Evidence = container.Yes, "containers are below the control group of their job step, "+group
	return f
}

func fetchOnNode(c *cli.Context, r *slurm.Report, w session.EngineWants) error {
	row := session.RuntimeNamed(r.Runtime)
	var wanted []fetch.Wanted
	if text := c.String("images"); text != "" {
		if err := json.Unmarshal([]byte(text), &wanted); err != nil {
			return fmt.Errorf("--images: %w", err)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found, store, err := row.Images.Fetch(c.Context, c.String("pull"), wanted)
	if err != nil {
		return err
	}
	if w.Store = store; store != nil {
		defer store.Close()
		if err := session.KeepOnNode(store); err != nil {
			return err
		}
	}
	e, _, err := nodeEngine(c, r.Runtime, w)
	if err != nil {
		return err
	}
	defer e.Close()
	for _, i := range found {
		env, err := e.Environment(c.Context, i.ID)
		if err != nil {
			return err
		}
		r.Images = append(r.Images, slurm.Image{Image: i, Env: env})
	}
	return nil
}
