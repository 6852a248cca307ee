package export_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gantry/executor"
	"gantry/planner"
	"gantry/sqlite/export"
	"gantry/sqlite/logtest"
)

type node = map[string]any

// list is a property as a list of its values.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

// checkCrate checks what RO-Crate 1.1 and the profiles Process, Workflow and Provenance Run Crate 0.5 say that a crate
// MUST have.
func checkCrate(t *testing.T, dir string) map[string]node {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "ro-crate-metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Context []string `json:"@context"`
		Graph   []node   `json:"@graph"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(file.Context, "https://w3id.org/ro/crate/1.1/context") {
		t.Errorf("context %v", file.Context)
	}
	all := map[string]node{}
	for _, e := range file.Graph {
		id := e["@id"].(string)
		if all[id] != nil || len(list(e["@type"])) == 0 {
			t.Errorf("entity %q is there twice, or has no type", id)
		}
		all[id] = e
	}
	is := func(e node, kinds ...string) bool {
		for _, k := range list(e["@type"]) {
			if slices.Contains(kinds, k.(string)) {
				return true
			}
		}
		return false
	}
	// must follows a property to entities of some kinds.
	must := func(e node, property string, least int, kinds ...string) (to []node) {
		for _, v := range list(e[property]) {
			id, _ := v.(node)["@id"].(string)
			if x := all[id]; x == nil || !is(x, kinds...) {
				t.Errorf("%v: %s leads to %q, which is none of %v", e["@id"], property, id, kinds)
			} else {
				to = append(to, x)
			}
		}
		if len(to) < least {
			t.Errorf("%v has no %s", e["@id"], property)
		}
		return to
	}
	used := map[any]bool{} // by actions as instruments
	tool := []string{"SoftwareApplication", "SoftwareSourceCode", "ComputationalWorkflow"}
	for id, e := range all {
		for property, v := range e { // no reference leads nowhere
			for _, x := range list(v) {
				to, ok := x.(node)
				if !ok || all[to["@id"].(string)] != nil || strings.HasPrefix(to["@id"].(string), "https:") {
					continue
				}
				t.Errorf("%s: %s leads to %v, which is not there", id, property, to)
			}
		}
		switch {
		case is(e, "File"):
			body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(id)))
			if sum := e["sha256"]; err != nil || sum != nil && sum != fmt.Sprintf("%x", sha256.Sum256(body)) {
				t.Errorf("file %s: %v, hash %v", id, err, e["sha256"])
			}
			if !slices.ContainsFunc(list(all["./"]["hasPart"]), func(v any) bool { return v.(node)["@id"] == id }) {
				t.Errorf("file %s is no part of the root", id)
			}
		case is(e, "CreateAction"):
			must(e, "instrument", 1, tool...)
			for _, u := range must(e, "resourceUsage", 0, "PropertyValue") {
				if u["propertyID"] == nil {
					t.Errorf("%v has no propertyID", u["@id"])
				}
			}
			must(e, "containerImage", 0, "ContainerImage")
			used[e["instrument"].(node)["@id"]] = true
		case is(e, "ControlAction"):
			must(e, "instrument", 1, "HowToStep")
			must(e, "object", 1, "CreateAction")
		case is(e, "OrganizeAction"):
			must(e, "instrument", 1, tool...)
			must(e, "result", 1, "CreateAction")
			must(e, "object", 1, "ControlAction")
		case is(e, "HowToStep"):
			must(e, "workExample", 1, tool...)
		case is(e, "FormalParameter"):
			must(e, "workExample", 0, "File", "Dataset", "Collection", "PropertyValue")
			if e["additionalType"] == nil {
				t.Errorf("%s has no additionalType", id)
			}
		}
	}
	root := all["./"]
	for _, key := range []string{"name", "description", "datePublished", "license"} {
		if root[key] == nil {
			t.Errorf("the root has no %s", key)
		}
	}
	about := all["ro-crate-metadata.json"]
	if about == nil || about["about"].(node)["@id"] != "./" {
		t.Errorf("the descriptor is about %v", about)
	}
	if n := len(must(root, "conformsTo", 4, "CreativeWork")); n != 4 {
		t.Errorf("%d profiles", n)
	}
	main := must(root, "mainEntity", 1, "ComputationalWorkflow")[0]
	for _, kind := range []string{"File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"} {
		if !is(main, kind) {
			t.Errorf("the main workflow is no %s", kind)
		}
	}
	must(main, "programmingLanguage", 1, "ComputerLanguage")
	must(main, "input", 0, "FormalParameter")
	must(main, "output", 0, "FormalParameter")
	must(main, "step", 1, "HowToStep")
	for _, x := range must(main, "hasPart", 1, tool...) {
		if !used[x["@id"]] {
			t.Errorf("no action used tool %v", x["@id"])
		}
	}
	return all
}

func TestCrateHasWhatTheProfilesDemand(t *testing.T) {
	db := diamond(t)
	l := logtest.New(t, db, logtest.Info("odd"))
	first := l.Arrive(0, "a b/ü?#", []string{"x y", "<script>\""}, [][]int32{nil, {0}})
	l.Exit(2*logtest.Second, l.Start(0, first, 1, 0, time.Second), planner.OK, 0, "")
	l.Start(2*logtest.Second, first+1, 1, 0, time.Second)
	results := t.TempDir()
	if err := os.MkdirAll(filepath.Join(results, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(results, "out", "3.dat"), []byte("result"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := export.ROCrateOptions{Workflow: "diamond", Agent: "ada", On: onDocker,
		Open: func(f *executor.FileSpec, _ *executor.User) (*os.File, error) {
			return os.Open(filepath.Join(results, f.Name))
		}}
	dir := t.TempDir()
	if err := export.ROCrate(t.Context(), dir, db, "calm", o); err != nil {
		t.Fatal(err)
	}
	all := checkCrate(t, dir)
	failed := all["#attempt/2"]
	if failed["actionStatus"] != "https://schema.org/FailedActionStatus" || failed["endTime"] !=
		"2026-11-21T10:30:04.25Z" || !strings.HasPrefix(fmt.Sprint(failed["error"]), "out-of-memory, exit code 137") {
		t.Errorf("the attempt that failed: %v", failed)
	}
	if u := all["#usage/0/cpu_s"]; u["value"] != "1.3125" {
		t.Errorf("CPU time: %v", u)
	}
	if r := all["results/out/3.dat"]; r["contentSize"] != "6" || r["sha256"] == nil {
		t.Errorf("the result: %v", r)
	}
	if w := all["#run/calm"]; w["endTime"] != "2026-11-21T10:30:14.25Z" ||
		w["actionStatus"] != "https://schema.org/CompletedActionStatus" {
		t.Errorf("the run: %v", w)
	}
	o.Workflow, dir = "a b/ü?#", t.TempDir()
	if err := export.ROCrate(t.Context(), dir, db, "odd", o); err != nil {
		t.Fatal(err)
	}
	checkCrate(t, dir)
}
