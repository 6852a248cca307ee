package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/sqlite"
	"gantry/sqlite/page"
)

// writePage writes the page of runs to a file, whole or not at all.
func writePage(c *cli.Context, names []string, file string) error {
	db, err := readLog(c)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, name := range names {
		var unknown *sqlite.UnknownRunError
		if _, err := db.Info(c.Context, name); errors.As(err, &unknown) {
			return failf(exitInput, "report: %w", err)
		} else if err != nil {
			return failf(exitHost, "report: %w", err)
		}
	}
	write := func(w io.Writer) error { return page.Write(c.Context, w, db, names, time.Now()) }
	if err := writeTo(c, file, write); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: open it in a browser\n", file)
	return nil
}
