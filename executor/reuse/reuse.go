package reuse

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gantry/executor"
	"gantry/executor/container/fault"
	"gantry/planner"
)

// Files are those of a run on this host.
type Files interface {
	Path(n planner.NodeID, w *executor.WorkflowSpec, f *executor.FileSpec) string
	// Adopt gives a file of the content, modes and times of another its place on a node, whole or not at all, and one
	// among the results if it is one. A file that was there goes.
	Adopt(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID, from string) error
	// LinkResult makes a file of a node appear among the results, if it is one and is not there.
	LinkResult(w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID) (linked bool, err error)
}

// Keeper knows the files of one run by their content. Its methods for the engine are called from one goroutine; Publish
// from any.
type Keeper struct {
	Log   Log
	Run   Run
	Home  string                   // directory of all runs
	Nodes []planner.Node           // of the run
	Files Files                    // of the run
	Image func(name string) string // IDs of images by the names that workflows have for them
	Seed  uint64                   // of made-up contents
	Now   func() planner.Time
	Hash  bool // outputs are hashed as they are published
	// Secrets stand for the values of secrets of all programs, by name (SecretSums). Afar says that programs run on
	// other hosts, which may see other directories.
	Secrets map[string]Sum
	Afar    bool
	Warn    func(format string, args ...any)

	made     map[[2]string]Sum // by workflow and file, those that tasks would take over; nil: it keeps files
	warned   map[string]bool
	contents sync.Map // of mounts, by their states: Sum to Sum
}

// Publish notes the outputs of an attempt that ended well, and its inputs from outside, as they are now.
func (k *Keeper) Publish(ctx context.Context, l *executor.Launch) error {
	var rows []Content
	for _, f := range l.Spec.Outputs {
		c, err := k.content(ctx, l.Spec.Workflow, f, l.Node, k.Hash)
		if errors.Is(err, errNoFile) || errors.Is(err, fs.ErrNotExist) { // a directory; one that is optional
			continue
		} else if err != nil {
			return err
		}
		rows = append(rows, c)
	}
	for _, f := range l.Spec.Inputs {
		if f.Produced {
			continue
		}
		c, err := k.content(ctx, l.Spec.Workflow, f, l.Node, k.Hash && f.External != "")
		if err != nil {
			continue // the task has ended, even if its input is gone since
		}
		rows = append(rows, c)
	}
	k.Run.Contents(rows...)
	if k.sees(l.Spec) {
		var begun time.Time // from a checkpoint on it is not known
		if l.From == nil {
			begun = time.Now().Add(-time.Duration(k.Now() - l.Queued))
		}
		k.Run.Identity(l.Task, k.known(ctx, l.Spec, begun))
	}
	return nil
}

func (k *Keeper) content(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID,
	hash bool) (c Content, err error) {
	c = Content{File: f.ID, Node: n}
	if !hash {
		c.Stamp, err = StampOf(k.Files.Path(n, w, f))
		return c, err
	}
	sum, stamp, err := k.hash(ctx, k.Files.Path(n, w, f))
	c.Sum, c.Stamp = &sum, stamp
	return c, err
}

// Gone implements executor.Results.
func (k *Keeper) Gone(w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID) (why string) {
	if n == planner.None {
		return "is nowhere"
	}
	st, err := os.Lstat(k.Files.Path(n, w, f))
	switch {
	case err == nil && !st.Mode().IsRegular() && !st.IsDir():
		return "is no file any more"
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "was deleted"
	}
	return "cannot be looked at: " + err.Error()
}

// Changed implements executor.Results.
func (k *Keeper) Changed(w *executor.WorkflowSpec, was, now *executor.FileSpec) bool {
	if was.External == now.External && was.Size == now.Size && was.Modified == now.Modified &&
		was.Blocks == now.Blocks && (now.Modified != 0 || now.External == "") {
		return false
	}
	if was.External == "" || now.External == "" || was.Blocks != now.Blocks || was.Blocks > 0 {
		return true
	}
	// The run has a copy.
	home := planner.NodeID(0)
	if len(was.Homes) > 0 {
		home = was.Homes[0]
	}
	ctx := context.Background()
	old, _, err := k.hash(ctx, k.Files.Path(home, w, was))
	if err != nil {
		return true
	}
	sum, err := k.outside(ctx, now.External)
	return err != nil || sum != old
}

// HashInputs hashes the files from outside that tasks read, so that nobody waits for that later.
func (k *Keeper) HashInputs(ctx context.Context, files []string) error {
	for _, f := range files {
		if _, err := k.outside(ctx, f); err != nil {
			return fmt.Errorf("hash an input: %w", err)
		}
	}
	return nil
}

// candidates is how many earlier attempts are looked at for a task.
const candidates = 20

// Reuse implements executor.Reuser.
func (k *Keeper) Reuse(ctx context.Context, t planner.TaskID, spec *executor.TaskSpec,
	at executor.Places) (*planner.TaskReused, error) {
	x, reason, err := k.find(ctx, t, spec, at)
	if err != nil {
		return nil, err
	}
	if x == nil {
		if err := k.Run.NotReused(t, k.Now(), reason); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// warn says, once for each reason, that results of a task are not reused for more than its files.
func (k *Keeper) warn(spec *executor.TaskSpec, reason string) {
	if k.warned == nil {
		k.warned = map[string]bool{}
	}
	if !k.warned[reason] {
		k.warned[reason] = true
		k.Warn("results of task %s of workflow %s, and of others like it, are not reused: %s", spec.Name,
			spec.Workflow.Name, reason)
	}
}

func (k *Keeper) find(ctx context.Context, t planner.TaskID, spec *executor.TaskSpec, at executor.Places) (
	x *planner.TaskReused, reason string, err error) {
	if len(spec.Command) > 0 && spec.Image == executor.HostImage {
		reason = "it runs programs of this host (image host), of which nobody knows whether they changed"
		k.warn(spec, reason)
		return nil, reason, nil
	}
	identities := []Sum{spec.Identity()}
	var view seen
	if k.sees(spec) {
		if view, reason = k.look(ctx, spec, true); reason != "" {
			k.warn(spec, reason)
			return nil, reason, ctx.Err()
		}
		identities = []Sum{view.content, view.state}
	}
	sums, err := k.inputs(ctx, spec, at)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, err.Error(), nil
	}
	var all []Candidate
	for _, id := range slices.Compact(identities) {
		more, err := k.Log.Candidates(ctx, id[:], candidates)
		if err != nil {
			return nil, "", err
		}
		all = append(all, more...)
	}
	nearest := 0 // the reason is that of the one that is most alike
	for i := range all {
		x, why, alike, err := k.take(ctx, &all[i], spec, sums)
		if x != nil && k.made == nil && k.sees(spec) {
			k.Run.Identity(t, view.content)
		}
		if err != nil || x != nil {
			return x, "", err
		}
		if alike > nearest {
			nearest, reason = alike, fmt.Sprintf("compared with run %s: %s", all[i].Run, why)
		}
	}
	if reason != "" {
		return nil, reason, nil
	}
	run, began, was, err := k.Log.Forerunner(ctx, spec.Workflow.Label, spec.Name)
	switch {
	case err != nil:
		return nil, "", err
	case was == nil:
		return nil, "no earlier run in the log has completed a task like it", nil
	}
	if differs := spec.Differs(was); differs != "" {
		return nil, fmt.Sprintf("compared with run %s: %s", run, differs), nil
	}
	if k.sees(spec) {
		reason = view.changed(run, began)
		k.warn(spec, reason)
		return nil, reason, nil
	}
	return nil, fmt.Sprintf("run %s did not keep what is needed to compare it", run), nil
}

// inputs returns the hashes of the inputs of a task, by name on the node.
func (k *Keeper) inputs(ctx context.Context, spec *executor.TaskSpec, at executor.Places) (map[string]Sum, error) {
	sums := make(map[string]Sum, len(spec.Inputs))
	for _, f := range spec.Inputs {
		var file string
		var err error
		switch {
		case f.Produced && k.made != nil:
			sum, ok := k.made[[2]string{spec.Workflow.Name, f.Name}]
			if !ok {
				return nil, fmt.Errorf("its input %s is made anew", f.Name)
			}
			sums[f.NodeName()] = sum
			continue
		case f.Produced:
			n := at(f.ID)
			if n == planner.None {
				return nil, fmt.Errorf("its input %s is nowhere", f.Name)
			}
			file = k.Files.Path(n, spec.Workflow, f)
		case f.External == "" || f.Blocks > 0:
			sums[f.NodeName()] = sha256.Sum256(fmt.Appendf(nil, "%s %d %d-%d of %d made up from %d at %s, %d",
				f.NodeName(), f.Size, f.From, f.To, f.Blocks, k.Seed, f.External, f.Modified))
			continue
		default:
			if file, err = filepath.EvalSymlinks(f.External); err != nil {
				return nil, fmt.Errorf("its input %s cannot be read: %w", f.Name, err)
			}
		}
		sum, _, err := k.hash(ctx, file)
		if errors.Is(err, errNoFile) {
			return nil, fmt.Errorf("its input %s is no regular file", f.Name)
		} else if err != nil {
			return nil, fmt.Errorf("its input %s cannot be read: %w", f.Name, err)
		}
		sums[f.NodeName()] = sum
	}
	return sums, nil
}

// take takes over the outputs of a candidate, or names in why the first difference: alike is 1 for one of the image, 2
// of the inputs, 3 of the outputs.
func (k *Keeper) take(ctx context.Context, c *Candidate, spec *executor.TaskSpec, sums map[string]Sum) (
	x *planner.TaskReused, why string, alike int, err error) {
	if now := k.Image(spec.Image); len(spec.Command) > 0 && (c.Image == "" || now != c.Image) {
		return nil, fmt.Sprintf("its image %s changed from %s to %s", spec.Image, short(c.Image), short(now)), 1, nil
	}
	had, err := k.Log.ContentsOf(ctx, c.RunID, c.Workflow)
	if err != nil {
		return nil, "", 0, err
	}
	old := earlier{k, c, had}
	for _, f := range spec.Inputs {
		if (f.External == "" || f.Blocks > 0) && !f.Produced {
			if had[f.NodeName()].Stamp.Size != int64(f.Size) {
				return nil, fmt.Sprintf("its input %s changed", f.Name), 2, nil
			}
			continue
		}
		sum, why, err := old.sum(ctx, f)
		if err != nil {
			return nil, "", 0, err
		}
		if why != "" {
			return nil, fmt.Sprintf("its input %s %s", f.Name, why), 2, nil
		}
		if sum != sums[f.NodeName()] {
			return nil, fmt.Sprintf("its input %s changed", f.Name), 2, nil
		}
	}
	n := planner.NodeID(planner.None)
	for _, f := range spec.Outputs {
		content, ok := had[f.NodeName()]
		if !ok {
			if f.Optional {
				continue
			}
			return nil, fmt.Sprintf("its output %s was not noted", f.Name), 3, nil
		}
		if why, err := old.unchanged(ctx, f); why != "" || err != nil {
			return nil, fmt.Sprintf("its output %s %s", f.Name, why), 3, err
		}
		if n == planner.None {
			named := func(x planner.Node) bool { return x.Name == content.Place }
			n = planner.NodeID(max(0, slices.IndexFunc(k.Nodes, named)))
		}
	}
	x = &planner.TaskReused{Node: n, Run: cmp.Or(c.From, c.Run), Attempt: c.Attempt, Ran: time.Duration(c.Ran)}
	if k.made != nil {
		if err := old.foresee(spec); err != nil {
			return nil, err.Error(), 3, nil
		}
		return x, "", 0, nil
	}
	var rows []Content
	for _, f := range spec.Outputs {
		if _, ok := had[f.NodeName()]; !ok {
			continue
		}
		row, err := k.adopt(ctx, old.path(f), spec.Workflow, f, n)
		if err != nil {
			return nil, fmt.Sprintf("its output %s cannot be linked: %v", f.Name, err), 3, nil
		}
		row.Sum = had[f.NodeName()].Sum
		rows = append(rows, row)
	}
	for _, f := range spec.Inputs { // as if it had read them
		if !f.Produced {
			sum := sums[f.NodeName()]
			row := Content{File: f.ID, Node: max(n, 0), Sum: &sum}
			row.Stamp.Size = int64(f.Size)
			rows = append(rows, row)
		}
	}
	k.Run.Contents(rows...)
	return x, "", 0, nil
}

func short(id string) string {
	if id == "" {
		return "an unknown one"
	}
	if rest, ok := strings.CutPrefix(id, "sha256:"); ok {
		return rest[:min(12, len(rest))]
	}
	return id
}

// earlier is a candidate with the known contents of its files.
type earlier struct {
	*Keeper
	c   *Candidate
	had map[string]Content
}

func (e *earlier) path(f *executor.FileSpec) string {
	return filepath.Join(e.Home, e.c.Run, "nodes", executor.EscapeName(e.had[f.NodeName()].Place),
		executor.EscapeName(e.c.Flow), filepath.FromSlash(path.Clean(f.NodePath())))
}

// sum is the hash of an input when the candidate read it.
func (e *earlier) sum(ctx context.Context, f *executor.FileSpec) (sum Sum, why string, err error) {
	content, ok := e.had[f.NodeName()]
	if !ok {
		return sum, "was not noted then", nil
	}
	if content.Sum != nil {
		return *content.Sum, "", nil
	}
	sum, now, err := e.hash(ctx, e.path(f))
	switch {
	case ctx.Err() != nil:
		return sum, "", ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return sum, "was deleted there, and had not been hashed", nil
	case err != nil:
		return sum, err.Error(), nil
	case !now.Same(content.Stamp):
		return sum, "was changed there since, and had not been hashed", nil
	}
	return sum, "", nil
}

// unchanged names the change of an output; "" if it is as the candidate left it.
func (e *earlier) unchanged(ctx context.Context, f *executor.FileSpec) (why string, err error) {
	content := e.had[f.NodeName()]
	now, err := StampOf(e.path(f))
	switch {
	case content.Removed || errors.Is(err, fs.ErrNotExist):
		return "was deleted there", nil
	case err != nil:
		return err.Error(), nil
	case now == content.Stamp && content.Sum != nil:
		return "", nil
	case now != content.Stamp && content.Sum == nil:
		return "was changed there since", nil
	case now.Size != content.Stamp.Size:
		return fmt.Sprintf("was changed there since: it has %d bytes in place of %d", now.Size, content.Stamp.Size), nil
	}
	sum, _, err := e.hash(ctx, e.path(f))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return err.Error(), nil
	case content.Sum == nil: // as links change the stamp
		content.Sum = &sum
		e.had[f.NodeName()] = content
		return "", e.Log.Hashed(e.c.RunID, content.File, sum)
	case sum != *content.Sum:
		return "was changed there since", nil
	}
	return "", nil
}

// LinkResult makes an output that stays appear among the results, if it is one now: it may not have been one before.
// The log has it as each of the files.
func (k *Keeper) LinkResult(ctx context.Context, w *executor.WorkflowSpec, f *executor.FileSpec, n planner.NodeID,
	ids ...planner.FileID) error {
	before, _ := StampOf(k.Files.Path(n, w, f)) // of no file it is like none
	if linked, err := k.Files.LinkResult(w, f, n); err != nil || !linked {
		return err
	}
	after, err := StampOf(k.Files.Path(n, w, f))
	for _, id := range ids { // a link changes the inode
		if was, ok, e := k.Run.Known(ctx, id); ok && was.Stamp == before && err == nil {
			was.Stamp = after
			k.Run.Contents(was)
		} else if e != nil {
			return e
		}
	}
	return err
}

// adopt makes an output of an earlier attempt one of this run.
func (k *Keeper) adopt(ctx context.Context, from string, w *executor.WorkflowSpec, f *executor.FileSpec,
	n planner.NodeID) (Content, error) {
	before, err := StampOf(from)
	if err != nil {
		return Content{}, err
	}
	if err := fault.Do("reuse", func() error { return k.Files.Adopt(ctx, w, f, n, from) }); err != nil {
		return Content{}, err
	}
	// A link changes the inode, and so the stamp that its content is remembered by.
	if was, sum, hashed, ok, err := k.Log.Remembered(ctx, before); err == nil && ok && was == before &&
		hashed.Sub(time.Unix(0, was.Modified)) > granularity {
		for _, at := range []string{from, k.Files.Path(n, w, f)} {
			if after, err := StampOf(at); err == nil && after.Size == before.Size && after.Modified == before.Modified {
				k.Log.Remember(after, sum, time.Now())
			}
		}
	}
	stamp, err := StampOf(k.Files.Path(n, w, f))
	return Content{File: f.ID, Node: n, Stamp: stamp}, err
}
