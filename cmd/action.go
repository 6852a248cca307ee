package cmd

import (
	"github.com/urfave/cli/v2"

	"gantry/cmd/api"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/sqlite"
)

// onLog is the action of a command that reads the log, or that of the submission that its arguments name.
func onLog(read func(c *cli.Context, db *sqlite.DB) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		db, err := readLog(c)
		if err != nil {
			return err
		}
		defer db.Close()
		return session.LogError(read(c, db))
	}
}

// onServer is the action of a command that asks the server of --dir.
func onServer(ask func(c *cli.Context, cl *api.Client) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		cl, err := client(c)
		if err != nil {
			return err
		}
		return serverError(ask(c, cl))
	}
}

// onSubmission is the action of a command that asks the server about one submission, by its number.
func onSubmission(ask func(c *cli.Context, cl *api.Client, id int64) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		id, err := submission(c)
		if err != nil {
			return err
		}
		return onServer(func(c *cli.Context, cl *api.Client) error { return ask(c, cl, id) })(c)
	}
}

// taking has a command refuse more arguments than it takes. Instead is the advice.
func taking(most int, instead string, do cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > most && most > 0 {
			return exit.Usagef("%s: %s", c.Command.Name, instead)
		} else if c.NArg() > most {
			return exit.Usagef("%s takes no arguments%s", c.Command.Name, instead)
		}
		return do(c)
	}
}

// asJSON prints a value for programs if --json asks for that.
func asJSON(c *cli.Context, v any) bool {
	if c.Bool("json") {
		term.PrintJSON(c.App.Writer, v)
	}
	return c.Bool("json")
}
