package scenario_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gantry/trace/reader/readertest"
	"gantry/trace/scenario"
)

const labCluster = `name: lab
transfer: overlapped
nodes:
  - {name: fast, count: 2, cores: 1, speed: 1.0, memory: 2GB, read: 100MB/s, write: 50 MiB/s, read_iops: 1000, write_iops: 900, group: a}
  - name: slow
    speed: 0.5
    group: b
    gpus: 2
  - {name: named, gpus: [nvidia.com/gpu=1], group: b}
links:
  - {from: a, to: b, bandwidth: 50MB/s, latency: 1ms}
resources: {licence: 3}
`

func TestClusterFileIsRead(t *testing.T) {
	c, err := scenario.ReadCluster(strings.NewReader(labCluster), "lab.yaml")
	must(t, err)
	fast := scenario.ClusterNode{Name: "fast-1", Group: "a", Cores: 1, Speed: 1, Memory: 2e9, ReadBps: 1e8,
		WriteBps: 50 << 20, ReadIOPS: 1000, WriteIOPS: 900}
	fast2 := fast
	fast2.Name = "fast-2"
	want := &scenario.Cluster{Name: "lab", Overlapped: true, Nodes: []scenario.ClusterNode{fast, fast2,
		{Name: "slow", Group: "b", Cores: 1, Speed: 0.5, GPUs: 2},
		{Name: "named", Group: "b", Cores: 1, Speed: 1, GPUs: 1, Devices: []string{"nvidia.com/gpu=1"}}},
		Links:     []scenario.Link{{From: "a", To: "b", Bandwidth: 5e7, Latency: time.Millisecond}},
		Resources: []scenario.Token{{Name: "licence", Count: 3}}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\nwant %+v", c, want)
	}
	var doc any
	must(t, yaml.Unmarshal([]byte(labCluster), &doc))
	text, err := json.Marshal(doc)
	must(t, err)
	fromJSON, err := scenario.ReadCluster(bytes.NewReader(text), "lab.json")
	if err != nil || !reflect.DeepEqual(fromJSON, want) {
		t.Errorf("as JSON: %+v %v", fromJSON, err)
	}
	readertest.Validate(t, readertest.Schema(t, "schema/cluster.schema.json"), text)
}

func TestClusterFilesThatCannotBeAreRefused(t *testing.T) {
	node := "nodes:\n- {name: n}\n"
	for text, says := range map[string]string{
		"":          "nothing in it",
		"nodes: []": "at least one node",
		"name: x":   "at least one node",
		"nodes:\n- {name: n}\n- {name: n}": "line 3: node name n is taken by the node on " +
			"line 2",
		"nodes:\n- {cores: 1}":               "line 2: a node without a name",
		"nodes:\n- {name: n, cores: 0}":      `line 2: cores is "0", but has to be a number from 0.001 to`,
		"nodes:\n- {name: n, cores: 0.0004}": `"0.0004", but has to be a number from 0.001`,
		"nodes:\n- {name: n, cores: -1}":     "from 0.001",
		"nodes:\n- name: n\n  speed: fast":   `line 3: speed is "fast"`,
		"nodes:\n- {name: n, speed: .inf}":   "speed",
		"nodes:\n- {name: n, count: 1.5}":    "whole number",
		"nodes:\n- {name: n, count: 1e9}":    "whole number from 1 to",
		"nodes:\n- {name: n, memory: lots}":  "not an amount of bytes",
		"nodes:\n- {name: n, memory: -5GB}":  "not an amount of bytes",
		"nodes:\n- {name: n, memory: 0}":     "not above 0",
		"nodes:\n- {name: n}\n- {name: m, memory: 64}": "line 3: node m has 64 B of memory, and a task takes " +
			"at least 6.291 MB: add a unit",
		"nodes: [{name: n}]\nresources: {a: 0}": `line 2: a is "0", but has to be a whole number from 1 to ` +
			"65535",
		"nodes: [{name: n}]\nresources: {a b: 1}": `line 2: resource "a b": there are at most 8, with names ` +
			"of letters",
		"nodes: [{name: n}]\nresources: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}": "resource " +
			`"i": there`,
		"nodes: [{name: n}]\nresources: 3": "resources should be a " +
			"mapping",
		"nodes:\n- {name: n, gpus: 1.5}":           `line 2: gpus is "1.5", but has to be a whole number up to 64`,
		"nodes:\n- {name: n, gpus: -1}":            "whole number",
		"nodes:\n- {name: n, gpus: 65}":            "whole number",
		"nodes:\n- {name: n, gpus: many}":          "or a list of names",
		"nodes:\n- {name: n, gpus: {a: b}}":        "gpus should be a list",
		"nodes:\n- {name: n, count: 2, gpus: [a]}": "have the same GPUs",
		"nodes:\n- {name: n, memry: 2GB}":          `unknown key "memry"; did you mean memory?`,
		"nodes:\n- {name: n, zzzzzz: 2GB}":         "known are name, count, cores",
		"nodes:\n- {name: n, cores: 1, cores: 2}":  "cores",
		"nodes: 5":                           "nodes should be a list",
		"nodes:\n- 5":                        "a node should be a mapping",
		node + "transfer: fast":              "held or overlapped",
		node + "links:\n- {from: a, to: ''}": `line 4: a link joins group "a", which no node is in`,
		node + "links:\n- {from: '', to: '', latency: 5}":           "duration with its unit",
		node + "links:\n- {from: '', to: ''}\n- {from: '', to: ''}": "two links",
		"nodes: [":       "not YAML",
		"name: *nothing": "anchor",
	} {
		_, err := scenario.ReadCluster(strings.NewReader(text), "c.yaml")
		if err == nil || !strings.HasPrefix(err.Error(), "cluster c.yaml: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

const morning = `name: morning
workflows:
  - trace: montage.dax
    name: m
    arrive: 1m
    tenant: alice
    class: low
    copies: 2
    inputs: data
    image: busybox
    data: {placement: random, replicas: 2, block: 64MB}
  - {trace: /abs/x.json, release: 5s, deadline: 100s, costs: {t1: {fast-1: 14s, slow: 16s}}}
`

func TestWorkloadFileIsRead(t *testing.T) {
	w, err := scenario.ReadWorkload(strings.NewReader(morning), "some/dir/w.yaml")
	must(t, err)
	first := scenario.Arrival{Trace: "some/dir/montage.dax", Name: "m", Copies: 2, Arrive: time.Minute, Tenant: "alice",
		Class: "low", Inputs: "some/dir/data", Image: "busybox", Line: 3,
		Data: &scenario.Data{Placement: "random", Block: 64e6, Replicas: 2}}
	second := scenario.Arrival{Trace: "/abs/x.json", Copies: 1, Class: "deadline", Release: 5 * time.Second,
		Deadline: 100 * time.Second, Line: 12,
		Costs: &scenario.Costs{Seconds: map[string]map[string]time.Duration{"t1": {"fast-1": 14 * time.Second,
			"slow": 16 * time.Second}}}}
	want := &scenario.Workload{Name: "morning", Source: "some/dir/w.yaml", Arrivals: []scenario.Arrival{first, second}}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("%+v\nwant %+v", w, want)
	}
	if w.Listed() != 3 || first.Copy(1) != "m-2" || second.Copy(0) != "" {
		t.Errorf("%d workflows, %q and %q", w.Listed(), first.Copy(1), second.Copy(0))
	}
	var doc any
	must(t, yaml.Unmarshal([]byte(morning), &doc))
	text, err := json.Marshal(doc)
	must(t, err)
	readertest.Validate(t, readertest.Schema(t, "schema/workload.schema.json"), text)
	for text, want := range map[string]bool{morning: true, string(text): true, "workflows: []": true, labCluster: false,
		`<adag><job id="a"/></adag>`:                                       false,
		`{"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a"}]}}`: false} {
		if scenario.IsWorkload([]byte(text)) != want {
			t.Errorf("IsWorkload(%q) is %v", text, !want)
		}
	}
}

func TestWorkloadFilesThatCannotBeAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"workflows: []":                                      "at least one workflow",
		"workflows:\n- {name: x}":                            "line 2: a workflow without its trace",
		"workflows:\n- {trace: x, arive: 0s}":                `line 2: a workflow: unknown key "arive"; did you mean arrive?`,
		"workflows:\n- {trace: x, arrive: 5}":                "duration with its unit",
		"workflows:\n- {trace: x, arrive: -5s}":              "duration with its unit",
		"workflows:\n- {trace: x, class: high}":              "deadline, regular or low",
		"workflows:\n- {trace: x, class: deadline}":          "needs a deadline",
		"workflows:\n- {trace: x, arrive: 9s, deadline: 5s}": "deadline 5s is not after arrival 9s",
		"workflows:\n- {trace: x, copies: 0}":                "whole number",
		"workflows:\n- {trace: x, name: n}\n- {trace: x, name: n}": "line 3: workflow name n is taken by " +
			"the workflow on line 2",
		"workflows:\n- {trace: x, costs: none.csv}":        "line 2: costs",
		"workflows: [{trace: x}]\ndata: {placement: ceph}": "line 2: placement is",
		"workflows: [{trace: x}]\ndata: {replicas: 0}":     "line 2: replicas",
		"workflows: [{trace: x}]\ndata: {block: -1}":       "line 2: block",
		"workflows: [{trace: x}]\ndata: {size: 1}":         "line 2: data: unknown key",
		"workflows: [{trace: x}]\ndata: {placement: everywhere, replicas: 2}": "replicas is not for placement " +
			"everywhere",
	} {
		_, err := scenario.ReadWorkload(strings.NewReader(text), "w.yaml")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

func TestCostsAreReadFromCSV(t *testing.T) {
	dir := t.TempDir()
	readWith := func(csv string) (*scenario.Workload, error) {
		must(t, os.WriteFile(filepath.Join(dir, "c.csv"), []byte(csv), 0o644))
		return scenario.ReadWorkload(strings.NewReader("workflows: [{trace: x, costs: c.csv}]"),
			filepath.Join(dir, "w.yaml"))
	}
	w, err := readWith("task,node,seconds\nt1,p1,14\nt1,p2,16.5\n")
	must(t, err)
	if want := map[string]map[string]time.Duration{"t1": {"p1": 14 * time.Second,
		"p2": 16500 * time.Millisecond}}; !reflect.DeepEqual(w.Arrivals[0].Costs.Seconds, want) {
		t.Errorf("%v", w.Arrivals[0].Costs.Seconds)
	}
	for csv, says := range map[string]string{"": "it is empty", "t1,p1,14\n": "the header has to be",
		"task,node,seconds\nt1,p1\n":   "line 2 has other fields than task,node,seconds",
		"task,node,seconds\nt1,p1,x\n": `line 2: seconds "x" of task t1`, "task,node,seconds\nt1,p1,-1\n": "negative",
		"task,node,seconds\nt1,p1,1\nt1,p1,1\n": "line 3: task t1 on node p1 is given twice"} {
		if _, err := readWith(csv); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", csv, err, says)
		}
	}
}
