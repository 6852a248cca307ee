package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
)

// ROCrateOptions says where the files of a run are, and names the user that ran it.
type ROCrateOptions struct {
	Workflow  string
	Agent     string                 // name of the user that ran it; "": not known
	On        *executor.Capabilities // of the run's runtime, which runs programs
	Estimates *trace.Estimates       // as of WfFormat
	// Open opens an input from outside, or a result, for the user of the workflow; nil: gantry's own user.
	Open func(f *executor.FileSpec, by *executor.User) (*os.File, error)
}

// profiles are the profiles of RO-Crate that a crate conforms to, with their versions.
var profiles = [][3]string{{"https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5"},
	{"https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"},
	{"https://w3id.org/ro/wfrun/provenance/0.5", "Provenance Run Crate", "0.5"},
	{"https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"}}

// entity is an object of JSON, such as a node of the JSON-LD graph.
type entity map[string]any

func ref(id string) entity { return entity{"@id": id} }

type crate struct {
	dir     string
	graph   []entity
	seen    map[string]bool
	files   map[string]string // by name: id of the entity
	parts   []entity          // of the root
	started time.Time

	agent, steps, tools, controls []entity
	images                        map[string]entity // by name
	first, last                   int64             // when the first attempt was ordered, and the last one ended
	state                         string            // of the workflow
}

func (c *crate) add(id string, kind any, e entity) entity {
	if !c.seen[id] {
		c.seen[id] = true
		e["@id"], e["@type"] = id, kind
		c.graph = append(c.graph, e)
	}
	return ref(id)
}

// local is the id of an entity that is not a file.
func local(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(strings.ToValidUTF8(parts[i], "\ufffd"))
	}
	return "#" + strings.Join(parts, "/")
}

func (c *crate) at(ns int64) string {
	return c.started.Add(time.Duration(ns)).UTC().Format(time.RFC3339Nano)
}

// ROCrate writes a workflow of a run as a Workflow Run RO-Crate, profile Provenance Run Crate 0.5, into a directory:
// its metadata, the workflow as WfFormat, and copies of the inputs and results that are still there, with their
// SHA-256. Files that were not kept are in the metadata only. Each attempt is an action, also if it failed.
func ROCrate(ctx context.Context, dir string, db *sqlite.DB, run string, o ROCrateOptions) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	var a *executor.Admission
	if err := db.Admissions(ctx, info.Name, func(x *executor.Admission) error {
		if x.Submission.Name == o.Workflow && a == nil {
			a = x
		}
		return nil
	}); err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("run %s has no workflow %q", info.Name, o.Workflow)
	}
	c := &crate{dir: dir, seen: map[string]bool{}, files: map[string]string{}, started: info.Started}
	if err := c.write(ctx, db, &info, a, o); err != nil {
		return err
	}
	text, err := json.MarshalIndent(entity{"@context": []string{"https://w3id.org/ro/crate/1.1/context",
		"https://w3id.org/ro/terms/workflow-run/context"}, "@graph": c.graph}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ro-crate-metadata.json"), append(text, '\n'), 0o644)
}

func (c *crate) write(ctx context.Context, db *sqlite.DB, info *sqlite.RunInfo, a *executor.Admission,
	o ROCrateOptions) error {
	var conforms []entity
	for _, p := range profiles {
		conforms = append(conforms, c.add(p[0], "CreativeWork", entity{"name": p[1], "version": p[2]}))
	}
	for _, f := range a.Files {
		if err := c.file(f, func() (*os.File, error) { return o.Open(f, a.Submission.By) }); err != nil {
			return err
		}
	}
	workflow, err := WfFormat(ctx, db, info.Name, o.On, o.Estimates)
	if err != nil {
		return err
	}
	const main = "workflow.json"
	out, err := os.Create(filepath.Join(c.dir, main))
	if err != nil {
		return err
	}
	if err := errors.Join(workflow(out, o.Workflow), out.Close()); err != nil {
		return err
	}
	c.parts = append(c.parts, ref(main))
	c.agent = []entity{}
	if o.Agent != "" {
		c.agent = append(c.agent, c.add(local("user", o.Agent), "Person", entity{"name": o.Agent}))
	}
	engine := c.add(local("gantry"), "SoftwareApplication", entity{"name": "gantry", "softwareVersion": info.Version,
		"version": info.Version})
	inputs, outputs := []entity{}, []entity{}
	var formalIn, formalOut []entity
	for _, f := range a.Files {
		of, name := "output", f.NodeName()
		if !f.Produced {
			of = "input"
		} else if !f.Final {
			continue
		}
		p := entity{"name": name, "additionalType": "File"}
		if !strings.HasPrefix(c.files[name], "#") {
			p["workExample"] = ref(c.files[name])
		}
		formal := c.add(local(of, name), "FormalParameter", p)
		if of == "input" {
			inputs, formalIn = append(inputs, ref(c.files[name])), append(formalIn, formal)
		} else {
			outputs, formalOut = append(outputs, ref(c.files[name])), append(formalOut, formal)
		}
	}
	run := local("run", info.Name)
	if err := c.attempts(ctx, db, info.Name, a); err != nil {
		return err
	}
	if len(c.controls) == 0 {
		return fmt.Errorf("no task of workflow %s of run %s has been started: there is nothing to describe", o.Workflow,
			info.Name)
	}
	status := "https://schema.org/" + cmp.Or(map[string]string{"done": "Completed", "running": "Active",
		"waiting": "Active"}[c.state], "Failed") + "ActionStatus"
	language := c.add(local("wfformat"), "ComputerLanguage", entity{"name": "WfFormat", "version": "1.5",
		"url": "https://github.com/wfcommons/WfFormat"})
	c.add(main, []string{"File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"}, entity{"name": o.Workflow,
		"programmingLanguage": language, "hasPart": c.tools, "step": c.steps, "input": formalIn, "output": formalOut,
		"encodingFormat": "application/json"})
	began := c.at(c.first)
	action := entity{"name": "run " + info.Name + " of workflow " + o.Workflow, "instrument": ref(main),
		"object": inputs, "result": outputs, "startTime": began, "actionStatus": status, "agent": c.agent}
	whole := entity{"name": "execution by gantry " + info.Version, "instrument": engine, "object": c.controls,
		"result": ref(run), "startTime": began, "actionStatus": status, "agent": c.agent}
	if c.last > c.first {
		action["endTime"], whole["endTime"] = c.at(c.last), c.at(c.last)
	}
	c.add(run, "CreateAction", action)
	organize := c.add(local("organize", info.Name), "OrganizeAction", whole)
	license := c.add(local("license"), "CreativeWork", entity{"name": "No licence stated",
		"description": "gantry knows of no licence of the data: add one here."})
	c.add("./", "Dataset", entity{"name": "Run " + info.Name + " of workflow " + o.Workflow,
		"description": "Execution of workflow " + o.Workflow + " by gantry, policy " + info.Policy + ", on " +
			info.Runtime + ".", "datePublished": c.at(c.last), "license": license, "conformsTo": conforms,
		"hasPart": c.parts, "mainEntity": ref(main), "mentions": []entity{ref(run), organize}})
	c.add("ro-crate-metadata.json", "CreativeWork", entity{"about": ref("./"), "conformsTo": []entity{
		ref("https://w3id.org/ro/crate/1.1"), ref("https://w3id.org/workflowhub/workflow-ro-crate/1.0")}})
	return nil
}

// file copies a file into the crate, if it is still there, and adds its entity.
func (c *crate) file(f *executor.FileSpec, open func() (*os.File, error)) error {
	name := f.NodeName()
	about := entity{"name": name}
	if f.Sized {
		about["contentSize"] = strconv.FormatInt(int64(f.Size), 10)
	}
	of, to, kept := "input", "inputs", f.External != ""
	if f.Produced {
		of, to, kept = "output", "results", f.Final
	}
	var in *os.File
	var err error
	if kept {
		in, err = open()
	}
	if !kept || err != nil {
		c.files[name] = local("file", name)
		c.add(c.files[name], "CreativeWork", about)
		return nil
	}
	place := path.Join(to, path.Clean("/"+f.Name)) // never out of the crate
	sum, size, err := copyFile(in, filepath.Join(c.dir, filepath.FromSlash(place)))
	if err != nil {
		return fmt.Errorf("copy %s into the crate: %w", in.Name(), err)
	}
	id := (&url.URL{Path: place}).String()
	c.files[name] = id
	about["sha256"], about["contentSize"] = sum, strconv.FormatInt(size, 10)
	about["exampleOfWork"] = ref(local(of, name))
	c.parts = append(c.parts, c.add(id, "File", about))
	return nil
}

func copyFile(in *os.File, to string) (sum string, size int64, err error) {
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", 0, err
	}
	out, err := os.Create(to)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(out, h), in)
	return hex.EncodeToString(h.Sum(nil)), size, errors.Join(err, out.Close())
}

// crateAttempt is an attempt of a workflow of a state. Nil is not known.
type crateAttempt struct {
	Number, Task, Try                     int64
	Node, Outcome, Message                string
	Queued                                int64
	Ended, CPU, Peak, Read, Written, Exit *int64
	GPU, GPUPeak                          *int64
	State                                 string
}

// attempts adds an action for each attempt of a workflow, with its step and its tool.
func (c *crate) attempts(ctx context.Context, db *sqlite.DB, run string, a *executor.Admission) error {
	specs := map[int64]*executor.TaskSpec{}
	for i, t := range a.Arrived.Tasks {
		specs[int64(t.ID)] = a.Tasks[i]
	}
	c.images = map[string]entity{}
	if err := sqlite.EachRow(ctx, db, func(i *[3]string) error {
		if i[1] != executor.HostImage { // which is none
			c.images[i[0]] = c.image(i[0], i[1], i[2])
		}
		return nil
	}, `SELECT i.image, i.id, coalesce(i.digest, '') FROM runs r JOIN images i ON i.run = r.id WHERE r.name = ?`,
		run); err != nil {
		return err
	}
	c.first = -1
	return sqlite.EachRow(ctx, db, func(r *crateAttempt) error {
		c.state = r.State
		if spec := specs[r.Task]; spec != nil {
			c.attempt(r, spec)
		}
		return nil
	}, `SELECT a.attempt, a.task, a.try, coalesce(n.name, ''), coalesce(a.outcome, ''), coalesce(a.message, ''),
		a.queued_ns, a.ended_ns, a.cpu_user_ns + a.cpu_system_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes,
		a.exit_code, a.gpu_ns, a.peak_gpu_memory_bytes, w.state
		FROM runs r JOIN workflows w ON w.run = r.id AND w.workflow = ?2
		JOIN tasks t ON t.run = r.id AND t.workflow = w.workflow
		JOIN attempts a ON a.run = r.id AND a.task = t.task LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node
		WHERE r.name = ?1 AND a.queued_ns IS NOT NULL ORDER BY a.attempt`, run, int64(a.Spec.ID))
}

func (c *crate) attempt(r *crateAttempt, spec *executor.TaskSpec) {
	if c.first < 0 {
		c.first = r.Queued
	}
	number, tool, step := strconv.FormatInt(r.Number, 10), local("tool", spec.Kind), local("step", spec.Name)
	if !c.seen[tool] {
		c.tools = append(c.tools, c.add(tool, "SoftwareApplication", entity{"name": spec.Kind}))
	}
	if !c.seen[step] {
		c.steps = append(c.steps, c.add(step, "HowToStep", entity{"name": spec.Name,
			"position": strconv.Itoa(len(c.steps)), "workExample": ref(tool)}))
	}
	action := entity{"name": fmt.Sprintf("task %s, attempt %d, on node %s", spec.Name, r.Try, r.Node),
		"instrument": ref(tool), "startTime": c.at(r.Queued), "agent": c.agent,
		"object": c.refs(spec.Inputs), "actionStatus": "https://schema.org/ActiveActionStatus"}
	if len(spec.Command) > 0 {
		action["description"] = strings.ToValidUTF8(strings.Join(spec.Command, " "), "\ufffd")
	}
	if r.Ended != nil {
		action["endTime"] = c.at(*r.Ended)
		c.last = max(c.last, *r.Ended)
	}
	switch r.Outcome {
	case "ok":
		action["actionStatus"], action["result"] = "https://schema.org/CompletedActionStatus", c.refs(spec.Outputs)
	case "":
	default:
		action["actionStatus"], action["error"] = "https://schema.org/FailedActionStatus", r.Outcome+": "+r.Message
		if r.Exit != nil && *r.Exit >= 0 {
			action["error"] = fmt.Sprintf("%s, exit code %d: %s", r.Outcome, *r.Exit, r.Message)
		}
	}
	if image, ok := c.images[spec.Image]; ok {
		action["containerImage"] = image
	}
	if usage := c.usage(r, number); usage != nil {
		action["resourceUsage"] = usage
	}
	done := c.add(local("attempt", number), "CreateAction", action)
	c.controls = append(c.controls, c.add(local("control", number), "ControlAction", entity{
		"name": "orchestrate " + spec.Name, "instrument": ref(step), "object": done}))
}

func (c *crate) usage(r *crateAttempt, number string) (usage []entity) {
	for _, u := range []struct {
		property, name, unit string
		value                *int64
		by                   float64
	}{{"cpu_s", "CPU time", "SEC", r.CPU, 1e9}, {"peak_memory_bytes", "peak memory", "BYTE", r.Peak, 1},
		{"read_bytes", "bytes read", "BYTE", r.Read, 1}, {"written_bytes", "bytes written", "BYTE", r.Written, 1},
		{"gpu_s", "GPU time", "SEC", r.GPU, 1e9}, {"peak_gpu_memory_bytes", "peak GPU memory", "BYTE", r.GPUPeak, 1}} {
		if u.value != nil {
			usage = append(usage, c.add(local("usage", number, u.property), "PropertyValue", entity{
				"propertyID": u.property, "name": u.name, "unitCode": "http://qudt.org/vocab/unit/" + u.unit,
				"value": strconv.FormatFloat(float64(*u.value)/u.by, 'f', -1, 64)}))
		}
	}
	return usage
}

func (c *crate) refs(files []*executor.FileSpec) []entity {
	out := []entity{}
	for _, f := range files {
		out = append(out, ref(c.files[f.NodeName()]))
	}
	return out
}

// image adds a container image, with its digest in a registry, or else its own id.
func (c *crate) image(name, id, digest string) entity {
	e := entity{"additionalType": ref("https://w3id.org/ro/terms/workflow-run#DockerImage"), "name": name,
		"registry": "docker.io"}
	repository, tag := name, "latest"
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		repository, tag = name[:i], name[i+1:]
	}
	if host, rest, ok := strings.Cut(repository, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		e["registry"], repository = host, rest
	}
	e["name"], e["tag"] = repository, tag
	if _, sum, ok := strings.Cut(digest, "@sha256:"); ok {
		e["sha256"] = sum
	} else {
		e["sha256"] = strings.TrimPrefix(id, "sha256:")
		e["description"] = "The SHA-256 is that of the image's configuration: it was in no registry."
	}
	return c.add(local("image", name), "ContainerImage", e)
}
