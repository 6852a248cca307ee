package cmd

import (
	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/sqlite/report/columns"
)

func nodeCommand() *cli.Command {
	return &cli.Command{
		Name:      "node",
		Usage:     "list the nodes of the server of the directory, or change one",
		ArgsUsage: "[drain|resume|set NAME]",
		Description: `   gantry node                        list them
   gantry node drain NAME             start nothing more on it; running tasks continue
   gantry node resume NAME            all that it had when the run began
   gantry node set --cores 2 NAME     a part of that

The log has each change, and a server that is started again keeps to it.

Exit codes: 0 listed or changed, 2 wrong command line, 3 no such node, or more than it had, 4 no server.`,
		Flags: []cli.Flag{dirFlag(),
			&cli.Float64Flag{Name: "cores", Usage: "with set: `CORES` that tasks may hold"},
			sizeFlag("memory", "", "with set: `SIZE` of memory that tasks may hold"),
			quietFlag(), jsonFlag()},
		Action: onServer(func(c *cli.Context, cl *api.Client) error {
			if c.NArg() == 0 {
				nodes, err := cl.Nodes(c.Context)
				if err == nil {
					printNodesNow(c, nodes)
				}
				return err
			}
			req := api.ChangeNode{Cores: c.Float64("cores"), Memory: sizeOf(c, "memory")}
			verb, name := c.Args().First(), c.Args().Get(1)
			to := map[string]string{"drain": api.NodeDrained, "resume": api.NodeWhole, "set": api.NodeSet}
			if req.To = to[verb]; req.To == "" || c.NArg() != 2 {
				return exit.Usagef("node: write gantry node drain NAME, resume NAME or set NAME")
			}
			if verb == "set" && !c.IsSet("cores") && !c.IsSet("memory") {
				return exit.Usagef("node set: give --cores, --memory or both")
			}
			n, err := cl.ChangeNode(c.Context, name, req)
			if err == nil && !c.Bool("quiet") {
				printNodesNow(c, []api.Node{*n})
			}
			return err
		}),
	}
}

func printNodesNow(c *cli.Context, nodes []api.Node) {
	if asJSON(c, nodes) {
		return
	}
	columns.List(c.App.Writer, nodes, 0, "node|-cores|-memory|-running|state", func(n api.Node) []any {
		memory, state := any("-"), "up"
		if n.Memory > 0 {
			memory = &n.Memory
		}
		if n.Drained {
			state = "drained"
		}
		return []any{n.Name, n.Cores, memory, n.Running, state}
	})
}
