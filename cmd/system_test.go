package cmd

import (
	"slices"
	"strings"
	"testing"

	"gantry/cmd/internal/exit"

	"github.com/urfave/cli/v2"
)

// Elsewhere a command that needs Linux names those that do not, and does nothing.
func TestCommandsThatNeedLinuxSaySo(t *testing.T) {
	all := commands()
	onSystem("darwin", all)
	for _, name := range onLinux {
		i := slices.IndexFunc(all, func(c *cli.Command) bool { return c.Name == name })
		if i < 0 {
			t.Errorf("%s needs Linux, and is no command", name)
			continue
		}
		app := &cli.App{Commands: []*cli.Command{all[i]}, ExitErrHandler: func(*cli.Context, error) {}}
		all[i].Action = func(*cli.Context) error { t.Errorf("%s does something", name); return nil }
		err, ok := app.Run([]string{"gantry", name}).(*exit.Error)
		if !ok || err.Code != exitHost || !strings.HasPrefix(err.Error(), "gantry "+name+
			" needs Linux: on this system gantry has simulate, ") || strings.Contains(err.Error(), "resume, ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"simulate", "check", "report", "export", "compare", "experiment", "show"} {
		if slices.Contains(onLinux, name) {
			t.Errorf("%s needs Linux", name)
		}
	}
	here := commands()
	onSystem("linux", here)
	if slices.ContainsFunc(here, func(c *cli.Command) bool { return c.Before != nil }) {
		t.Error("commands refuse to work on Linux")
	}
}
