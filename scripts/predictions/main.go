// Command predictions measures gantry's predictions of runtimes and memory: of programs in containers, and on data that
// others published, beside their own methods on the same split. It writes the tables of examples/predict/README.md.
//
//	predictions [-small DIR] [-lotaru DIR] [-sizey DIR] [-page FILE]
//
// The data are clones of CRC-FONDA/Lotaru and dos-group/sizey. They have no licence, and so are not part of gantry.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"gantry/scripts/measure"
)

func main() {
	lotaruDir := flag.String("lotaru", os.Getenv("GANTRY_LOTARU"), "clone of github.com/CRC-FONDA/Lotaru")
	sizeyDir := flag.String("sizey", os.Getenv("GANTRY_SIZEY"), "clone of github.com/dos-group/sizey")
	small := flag.String("small", "", "directory for runs in containers")
	page := flag.String("page", "examples/predict/README.md", "page whose tables are written again")
	measure.Main("predictions", func(ctx context.Context) error {
		both := *small
		if *sizeyDir == "" {
			both = ""
		}
		for _, part := range []struct {
			heading, dir, needs string
			write               func(ctx context.Context, w *bytes.Buffer, dir string) error
		}{
			{"## Runtimes: the data of Lotaru", *lotaruDir, "GANTRY_LOTARU, a clone of CRC-FONDA/Lotaru", writeLotaru},
			{"## Memory: the data of Sizey", *sizeyDir, "GANTRY_SIZEY, a clone of dos-group/sizey", writeSizey},
			{"## Makespans with these limits", both, "GANTRY_SIZEY and -small DIR",
				func(ctx context.Context, w *bytes.Buffer, dir string) error {
					return writeReplays(ctx, w, *sizeyDir, dir)
				}},
			{"## From small runs to the full one", *small, "-small DIR", writeSmall},
		} {
			if part.dir == "" {
				fmt.Printf("skipped %q: give %s\n", part.heading, part.needs)
				continue
			}
			var text bytes.Buffer
			err := part.write(ctx, &text, part.dir)
			if err == nil {
				err = replace(*page, part.heading, text.String())
			}
			if err != nil {
				return err
			}
			fmt.Printf("%s\n\n%s\n", part.heading, text.String())
		}
		return nil
	})
}

// replace puts a text between the heading and the next one, or the end of the page.
func replace(page, heading, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(old), heading+"\n")
	if !found {
		return fmt.Errorf("%s has no line %q", page, heading)
	}
	_, rest, more := strings.Cut(after, "\n## ")
	if more {
		rest = "\n## " + rest
	}
	return os.WriteFile(page, []byte(before+heading+"\n\n"+strings.TrimSpace(text)+"\n"+rest), 0o644)
}
