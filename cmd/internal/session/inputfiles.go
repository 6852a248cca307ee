package session

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/trace"
	"gantry/trace/shown"
)

// maxMissing is how many missing files an error lists.
const maxMissing = 20

// locate finds the files from outside. A file that a program needs and that is nowhere is an error.
func (p *Planning) locate(ctx context.Context, subs []executor.Submission) error {
	adm, search := p.Admitter(), stage.Search{User: stage.Caller().Rights()}
	for i := range subs {
		sub := &subs[i]
		files, err := adm.Outside(sub)
		if err != nil {
			return exit.With(exit.Input, err)
		}
		sources, missing, err := search.Locate(ctx, sub, files)
		if err != nil {
			return exit.With(exit.Interrupted, err)
		}
		if len(missing) > 0 {
			return exit.Inputf("%s", NotFound(sub.Name, missing))
		}
		sub.Sources = sources
		if err := checkArchives(ctx, p.Set, sub.Workflow); err != nil {
			return err
		}
	}
	return nil
}

// checkArchives refuses archives of images whose checksums differ from those in catalogs.
func checkArchives(ctx context.Context, set *Settings, w *trace.Workflow) error {
	for _, c := range w.Containers {
		path, archive := strings.CutPrefix(c.Image, "file://")
		if !archive || set.Emulate {
			continue
		}
		if err := stage.Caller().Rights().Check(ctx, path, c.SHA256); err != nil {
			return exit.Inputf("container %s: image %s: %w", c.Name, path, err)
		}
	}
	return nil
}

// Remote reports whether a file is at an address, and was not fetched yet.
func Remote(x executor.Source) bool { return x.URL != "" && x.Path == "" }

// FetchSources fetches the files that are at addresses, before the run is in the log, and refuses a run whose inputs do
// not fit on the disk.
func (p *Planning) FetchSources(ctx context.Context, dir string, subs []executor.Submission) error {
	adm, owner := p.Admitter(), stage.Caller()
	show := p.View.Arriving("input file", "fetching")
	get := &stage.Fetcher{Dir: filepath.Join(dir, stage.FetchedDir), Own: giveTo(owner), Wait: stage.Sleep,
		Begin: func(url string) { show.Begin("fetching " + url) }, Progress: show.Update}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for i := range subs {
		sub := &subs[i]
		if slices.ContainsFunc(sub.Sources, Remote) {
			files, err := adm.Outside(sub)
			if err != nil {
				return exit.With(exit.Input, err)
			}
			files = slices.DeleteFunc(files, func(f executor.Outside) bool { return !Remote(sub.Sources[f.File]) })
			search := stage.Search{User: RightsOf(sub, owner), Fetch: get.Fetch}
			found, missing, err := search.Locate(ctx, sub, files)
			show.Close()
			switch {
			case ctx.Err() != nil:
				return exit.Stoppedf("stopped; nothing was started")
			case err != nil:
				return exit.Hostf("fetch the inputs of workflow %s: %w; nothing was started", sub.Name, err)
			case len(missing) > 0:
				return exit.Inputf("%s", NotFound(sub.Name, missing))
			}
			for _, f := range files {
				sub.Sources[f.File] = found[f.File]
			}
		}
	}
	return p.checkRoom(dir, subs)
}

// checkRoom refuses a run whose inputs do not fit on the disk of a directory, which need not be there yet: those that
// are copied, and those that are made up with the size that the trace says.
func (p *Planning) checkRoom(dir string, subs []executor.Submission) error {
	adm := p.Admitter()
	var copied, madeUp float64
	for i := range subs {
		sub := &subs[i]
		files, err := adm.Outside(sub)
		if err != nil {
			return exit.With(exit.Input, err)
		}
		for _, f := range files {
			if sub.Sources == nil || sub.Sources[f.File] == (executor.Source{}) {
				madeUp += float64(sub.Workflow.Files[f.File].Size) * p.Set.SizeScale
			}
		}
		for _, src := range sub.Sources {
			copied += float64(src.Size)
		}
	}
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return exit.Hostf("run directory: %w", err)
	}
	free := float64(disk.Bavail) * float64(disk.Bsize)
	if copied+madeUp <= free {
		return nil
	}
	advice := "free some, or choose another --dir"
	if madeUp > 0 {
		advice = fmt.Sprintf("%s of them are made up for emulated tasks: make these smaller with --size-scale, or %s",
			shown.Size(int64(madeUp)), advice)
	}
	return exit.Hostf("the inputs have %s, and the disk of %s has room for %s: %s; nothing was started",
		shown.Size(int64(copied+madeUp)), dir, shown.Size(int64(free)), advice)
}

// giveTo changes the owner of a file that root made for the caller.
func giveTo(o stage.Owner) func(path string) error {
	return func(path string) error {
		if os.Geteuid() != 0 || o.UID == 0 {
			return nil
		}
		return os.Lchown(path, o.UID, o.GID)
	}
}

// CheckMounts refuses directories of the host that containers of catalogs ask for, unless the user consents.
func CheckMounts(subs []executor.Submission, consent bool) error {
	var asked []string
	for i := range subs {
		for _, c := range subs[i].Workflow.Containers {
			for _, m := range c.Mounts {
				if !slices.Contains(asked, m) {
					asked = append(asked, m)
				}
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if !consent {
		return exit.Inputf("containers of the catalogs ask for directories of this host (HOST:CONTAINER):\n  %s\n"+
			"--container-mounts lets them read these", strings.Join(asked, "\n  "))
	}
	for _, m := range asked {
		host, _, _ := strings.Cut(m, ":")
		if _, err := os.Stat(host); err != nil {
			return exit.Inputf("mount %s of a container: %w", m, err)
		}
	}
	return nil
}

// MissingFile says where a file was looked for.
func MissingFile(m stage.Missing) string {
	var looked []string
	for _, l := range m.Looked {
		looked = append(looked, l.Where+": "+l.Why)
	}
	if len(looked) == 0 {
		looked = append(looked, "no catalog names it, and the workflow comes from standard input")
	}
	return fmt.Sprintf("input %s of task %s:\n    %s", m.File, m.Task, strings.Join(looked, "\n    "))
}

// NotFound says which files are missing and where gantry looked for them.
func NotFound(workflow string, missing []stage.Missing) string {
	var b strings.Builder
	verb := "found"
	for _, m := range missing {
		if slices.ContainsFunc(m.Looked, func(l stage.Look) bool { return l.Why != "no such file" }) {
			verb = "read"
		}
	}
	fmt.Fprintf(&b, "workflow %s cannot start: %s cannot be %s\n", workflow, term.Plural(len(missing), "input file"),
		verb)
	for i, m := range missing {
		if i == maxMissing {
			fmt.Fprintf(&b, "  and %d more: gantry check lists them\n", len(missing)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", MissingFile(m))
	}
	b.WriteString("give their directory with --inputs DIR, name them in a replica catalog, or put them beside the " +
		"workflow; --emulate makes up all files")
	return b.String()
}

// RightsOf are the rights with which files of a submission are read.
func RightsOf(sub *executor.Submission, otherwise stage.Owner) stage.User {
	if sub.By != nil {
		return stage.User(*sub.By)
	}
	return otherwise.Rights()
}
