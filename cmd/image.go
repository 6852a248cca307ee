package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/gantry/debian"
	"gantry/cmd/gantry/early"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor/container/oci"
	"gantry/executor/container/oci/image"
	"gantry/sqlite/report/columns"
)

func imageCommand() *cli.Command {
	return &cli.Command{
		Name:      "image",
		Aliases:   []string{"images"},
		Usage:     "build an image of containers from Debian packages, or list those kept unpacked",
		ArgsUsage: "[ls | build NAME PACKAGE...]",
		Description: `Builds an image from packages of Debian or Ubuntu, with all that they depend on. The packages
come from the package sources of this machine. No registry is asked, nothing is installed, and it takes no rights
but those that the Docker Engine asks for. Packages are unpacked, not configured: programs run, services and
alternatives are not set up. A shell and its usual commands are always there (busybox). Equal packages give
an equal image, down to its ID. An image that was built from these packages before stays, unless --force is given.

   gantry image build gantry/busybox busybox-static
   gantry image build gantry/variants bwa samtools bcftools mawk
   gantry image build --runtime oci gantry/busybox busybox-static
   gantry image build --archive tools.tar tools mawk    for other machines: run --image file:///PATH/tools.tar
   gantry image ls                                      the images kept unpacked for --runtime oci

With --runtime oci the image comes into the store of images for containers without a daemon. The store is in
/var/lib/gantry/images, or for a user who is not root in ~/.local/share/gantry/images; $GANTRY_IMAGES names another
directory. ls lists it. gantry clean --images removes images of the store that no run needs. Images of the Docker
Engine are not in it: docker images lists those.

Exit codes: 0 built or listed, 2 wrong command line, 3 a package cannot be had, 4 the Docker Engine, the store or the
disk cannot be used, 130 stopped by a signal.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "runtime", DefaultText: runtimeDefault, Usage: "build for containers of `RUNTIME`: " +
				"docker or oci"},
			&cli.StringFlag{Name: "archive", Usage: "write the image to `FILE`, as docker save does, and nowhere else"},
			&cli.BoolFlag{Name: "force", Usage: "build an image that is there again, as packages have new versions"},
			&cli.BoolFlag{Name: "json", Usage: "ls: print a JSON array"}},
		Action: func(c *cli.Context) error {
			what := c.Args().First()
			switch {
			case what == "build" && c.NArg() > 2:
				return buildImage(c, c.Args().Get(1), c.Args().Slice()[2:])
			case what == "build":
				return exit.Usagef("image build: name the image and its packages, as in: gantry image build " +
					"gantry/busybox busybox-static")
			case c.NArg() > 1 || what != "" && what != "ls":
				return exit.Usagef("image: say ls, or build NAME PACKAGE...")
			}
			return listImages(c)
		},
	}
}

// buildImage builds an image where it is to go, unless it is there.
func buildImage(c *cli.Context, name string, packages []string) error {
	i, err := debian.New(name, packages)
	if err != nil {
		return exit.Usagef("image build: %w", err)
	}
	runtime := session.UsualRuntime.Name
	if c.String("archive") == "" {
		runtime = chosenRuntime(c)
	}
	row := session.RuntimeNamed(runtime)
	if row == nil || row.Engine == nil {
		return exit.Usagef("image build: --runtime %s has no images of its own: say docker or oci",
			runtime)
	}
	if err := session.Enter(row.Name); err != nil {
		return err
	}
	say := func(text string) { fmt.Fprintln(c.App.ErrWriter, text) }
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	defer early.Cancel(stop)()
	to := c.String("archive")
	if to == "" {
		if row.Store {
			if err := row.IsUsable(ctx); err != nil { // nothing could be made of it
				return exit.Hostf("image %s: %w", i.Name, err)
			}
		}
		have, err := row.Label(ctx, i.Name, debian.Label)
		if err != nil {
			return exit.Hostf("image %s: %w", i.Name, err)
		}
		if have == i.Packages && !c.Bool("force") {
			say(i.Name + " is there")
			return nil
		}
	}
	err = writeImage(ctx, i, to, row, say)
	switch {
	case ctx.Err() != nil:
		return exit.Stoppedf("stopped: image %s is not built", i.Name)
	case errors.Is(err, debian.ErrPackages):
		return exit.Inputf("image %s: %w", i.Name, err)
	case err != nil:
		return exit.Hostf("image %s: %w", i.Name, err)
	}
	return nil
}

// writeImage builds an image in a file, of that path if one is given, and else loads it.
func writeImage(ctx context.Context, i *debian.Image, path string, row *session.Runtime, say func(string)) error {
	say("building " + i.Name + " from " + i.Packages)
	at, where := path, path
	if path == "" {
		dir, err := os.MkdirTemp("", "gantry-image-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		at, where = filepath.Join(dir, "image.tar"), row.Name
	}
	if err := writeWhole(at, func(to io.Writer) error { return i.Build(ctx, to, say) }); err != nil {
		return err
	}
	if path != "" {
		session.GiveToCaller(path)
	} else if f, err := os.Open(at); err != nil {
		return err
	} else if err := errors.Join(row.Load(ctx, i.Name, f), f.Close()); err != nil {
		return err
	}
	st, err := os.Stat(at)
	if err == nil {
		say(fmt.Sprintf("built %s (%s, %s)", i.Name, term.Size(new(st.Size())), where))
	}
	return err
}

func listImages(c *cli.Context) error {
	if session.HasStore() {
		if err := oci.Enter(); err != nil {
			return exit.With(exit.Host, err)
		}
	}
	list, store, err := session.StoredImages()
	if err != nil {
		return exit.With(exit.Host, err)
	}
	if store != nil {
		defer store.Close()
	}
	out := c.App.Writer
	if asJSON(c, append([]image.Entry{}, list...)) {
		return nil
	}
	if len(list) == 0 {
		fmt.Fprintln(out, "no images are kept unpacked; docker images lists those of the Docker Engine")
		return nil
	}
	columns.List(out, list, 0, "image|id|platform|-size|-runs|state", func(e image.Entry) []any {
		state := "whole"
		if !e.Whole {
			state = "damaged"
		}
		return []any{strings.Join(session.ShownNames(&e), " "), e.ID[7:19], e.Platform, &e.Bytes, len(e.Runs), state}
	})
	if slices.ContainsFunc(list, func(e image.Entry) bool { return !e.Whole }) {
		fmt.Fprintln(out, "a damaged image is unpacked again when a run names it; gantry clean --images removes it if "+
			"no run needs it")
	}
	return nil
}
