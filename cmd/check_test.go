package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/trace"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// eventually waits until something holds, and fails with what there was last if that takes too long.
func eventually(t *testing.T, holds func() (ok bool, was any)) {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ok, was := holds()
		if ok {
			return
		} else if time.Now().After(until) {
			t.Fatalf("it did not come about: %v", was)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckPrintsOneJSONObjectPerFile(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"a.dax": "<adag version='3.6' name='w'><job id='a' name='x' runtime='2'/>\n<job id='b' name='x'/><child " +
			"ref='b'><parent ref='a'/></child></adag>",
		"b.dax": "<adag><job id='a'/>\n<job id='b'/><child ref='b'><parent ref='a'/></child><child ref='a'><parent " +
			"ref='b'/></child></adag>",
		"README": "hello\n",
	})
	var out, notes bytes.Buffer
	err := check([]string{dir, filepath.Join(dir, "none")}, checkOptions{json: true}, &out, &notes)
	if exit.CodeOf(err) != exitInput || !strings.Contains(err.Error(), "2 of 3 files") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(notes.String(), "README: not a workflow, skipped") {
		t.Errorf("notes: %s", notes.String())
	}
	var got []map[string]any
	for dec := json.NewDecoder(&out); dec.More(); {
		var o map[string]any
		must(t, dec.Decode(&o))
		got = append(got, o)
	}
	if len(got) != 3 {
		t.Fatalf("%d objects", len(got))
	}
	a, b, none := got[0], got[1], got[2]
	for key, want := range map[string]any{"format": "DAX", "version": "3.6", "tasks": 2.0, "edges": 1.0, "levels": 2.0,
		"width":     1.0,
		"runtime_s": 2.0, "critical_path_s": 2.0, "errors": []any{}, "warnings": []any{}} {
		if !reflect.DeepEqual(a[key], want) {
			t.Errorf("%s is %v, want %v", key, a[key], want)
		}
	}
	filled := []any{}
	for _, i := range a["imputed"].([]any) {
		filled = append(filled, fmt.Sprint(i.(map[string]any)["field"], " ", i.(map[string]any)["count"]))
	}
	if want := []any{"avg-cpu 2", "cores 2", "runtime 1", "memory 2", "command 2"}; !reflect.DeepEqual(filled, want) {
		t.Errorf("imputed are %v, want %v", filled, want)
	}
	if e := b["errors"].([]any)[0].(map[string]any); e["rule"] != "cycle" || e["line"] != 2.0 ||
		b["critical_path_s"] != nil {
		t.Errorf("%v", b)
	}
	if e := none["errors"].([]any)[0].(map[string]any); e["rule"] != "unreadable" {
		t.Errorf("%v", none)
	}
}

func TestCheckExitCodes(t *testing.T) {
	dir := writeFiles(t, map[string]string{"good.dax": "<adag><job id='a'/></adag>",
		"negative.dax": "<adag><job id='a' runtime='-1'/></adag>"})
	for _, c := range []struct {
		file   string
		repair bool
		want   int
	}{{"good.dax", false, exitOK}, {"negative.dax", false, exitInput}, {"negative.dax", true, exitOK},
		{"none", false, exitInput}} {
		var out bytes.Buffer
		err := check([]string{filepath.Join(dir, c.file)}, checkOptions{read: trace.ReadOptions{Repair: c.repair}},
			&out, &out)
		if exit.CodeOf(err) != c.want || !strings.HasPrefix(out.String(), filepath.Join(dir, c.file)+": ") {
			t.Errorf("%s, repair %v: %d, want %d; %s", c.file, c.repair, exit.CodeOf(err), c.want, out.String())
		}
	}
	if err := check(nil, checkOptions{}, &bytes.Buffer{}, &bytes.Buffer{}); exit.CodeOf(err) != exitUsage {
		t.Errorf("without files: %v", err)
	}
}

// A syntax error hides the keys that tell what the file is.
func TestCheckSaysOfBrokenYAMLWhereItIsBroken(t *testing.T) {
	for text, says := range map[string]string{
		"name: [\n":                     "line 2: syntax: not YAML: did not find expected node content; close what",
		"name: x\n\tnodes: 2\n":         "line 2: syntax: not YAML: found a tab character",
		"a: 1\nb: 2\n":                  "line 1: unknown-format",
		"nodes: [{}]\n---\nnodes: []\n": "a second YAML document",
	} {
		path := filepath.Join(writeFiles(t, map[string]string{"w.yaml": text}), "w.yaml")
		var out bytes.Buffer
		err := check([]string{path}, checkOptions{}, &out, &out)
		if exit.CodeOf(err) != exitInput || !strings.Contains(out.String(), says) {
			t.Errorf("%q: %d, %s; want %q", text, exit.CodeOf(err), out.String(), says)
		}
	}
}

func TestConvertWritesTheFileWholeOrNotAtAll(t *testing.T) {
	dir := writeFiles(t, map[string]string{"a.dax": "<adag><job id='a' runtime='1'/></adag>", "bad.dax": "<adag><job"})
	to := filepath.Join(dir, "a.json")
	var out, notes bytes.Buffer
	if err := convert(filepath.Join(dir, "a.dax"), convertOptions{out: to}, &out, &notes); err != nil ||
		out.Len() > 0 {
		t.Fatal(err, out.String())
	}
	w, faults, err := trace.Open(to, trace.ReadOptions{})
	if err != nil || len(faults) > 0 || w.Format != trace.WfFormat || len(w.Tasks) != 1 {
		t.Errorf("%v %v %v", w, faults, err)
	}
	before, _ := os.ReadFile(to)
	if err := convert(filepath.Join(dir, "bad.dax"), convertOptions{out: to}, &out,
		&notes); exit.CodeOf(err) != exitInput {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(to); !bytes.Equal(before, after) {
		t.Error("a failed conversion changed the target")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".gantry*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	commands := []*cli.Command{{Name: "do", Flags: []cli.Flag{&cli.BoolFlag{Name: "json"}, &cli.StringFlag{Name: "o",
		Aliases: []string{"output"}}}}}
	for in, want := range map[string]string{
		"gantry do a --json b":        "gantry do --json -- a b",
		"gantry do a -o x b":          "gantry do -o x -- a b",
		"gantry do a --output=x - -o": "gantry do --output=x -o",
		"gantry do --json -- --odd a": "gantry do --json -- --odd a",
		"gantry other a --json":       "gantry other a --json",
		"gantry --help":               "gantry --help",
		"gantry":                      "gantry",
	} {
		if got := strings.Join(interspersed(strings.Fields(in), commands), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
