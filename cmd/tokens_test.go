package cmd

import (
	"path/filepath"
	"testing"
)

func TestResourcesOfOnesOwn(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"m.makeflow": "CATEGORY=lic\na:\n\ttrue >a\nb:\n\ttrue >b\nCATEGORY=free\nc:\n\ttrue >c\n",
		"p.dax": `<adag name="p"><job id="ID1" name="x" runtime="3"><profile namespace="condor" ` +
			`key="concurrency_limits">LIC:2, db</profile></job><job id="ID2" name="x" runtime="3"/></adag>`,
		"c.yaml": "nodes: [{name: n, cores: 4, memory: 1GB}]\n",
		"l.yaml": "nodes: [{name: n, cores: 4, memory: 1GB}]\nresources: {l: 1}\n",
		"w.json": `{"name": "w", "schemaVersion": "1.4", "workflow": {"tasks": [{"id": "a", "name": "a", ` +
			`"runtimeInSeconds": 3, "needs": {"LIC": 2}}, {"id": "b", "name": "b", "runtimeInSeconds": 3, ` +
			`"needs": "LIC"}]}}`,
		"none.dax": `<adag name="p"><job id="ID1" name="x" runtime="3"/></adag>`,
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	for _, c := range []saying{
		{exitOK, "makespan 2.00 s", []string{"--resource=l=1", "--need=lic=l", at("m.makeflow")}},
		{exitOK, "makespan 1.00 s", []string{"--resource=l=2", "--need=lic=l", at("m.makeflow")}},
		{exitOK, "makespan 1.00 s", []string{"--resource=l=1", "--need=l", "--need=lic=none", at("m.makeflow")}},
		{exitOK, "makespan 2.00 s", []string{"--cluster=" + at("l.yaml"), "--need=lic=l", at("m.makeflow")}},
		{exitOK, "makespan 1.00 s", []string{"--cluster=" + at("l.yaml"), at("m.makeflow")}},
		{exitUsage, "--resource l is given twice, or also by the cluster file", []string{
			"--cluster=" + at("l.yaml"), "--resource=l=2", at("m.makeflow")}},
		{exitOK, "makespan 3.00 s", []string{"--resource=LIC=2", "--resource=db=1", at("p.dax")}},
		{exitOK, "makespan 6.00 s", []string{"--resource=LIC=2", "--name=w", at("w.json")}},
		{exitInput, "task a (" + at("w.json") + ", line 1) needs 2 of LIC, of which there is none",
			[]string{at("w.json")}},
		{exitInput, "task ID1 (" + at("p.dax") + ", line 1) needs 2 of LIC, of which there is none",
			[]string{at("p.dax")}},
		{exitInput, "needs 1 of db, of which there is none: --resource db=COUNT says how many there are", []string{
			"--resource=LIC=2", at("p.dax")}},
		{exitInput, "needs more of LIC than there are: --resource LIC=1", []string{"--resource=LIC=1",
			"--resource=db=1", at("p.dax")}},
		{exitInput, "--resource has no effect here: no task needs one", []string{"--resource=LIC=1", at("none.dax")}},
		{exitUsage, "--resource a is given twice", []string{"--resource=a=1", "--resource=a=2", at("p.dax")}},
		{exitUsage, `--resource "a=99999": write NAME=COUNT`, []string{"--resource=a=99999", at("p.dax")}},
		{exitUsage, `--need "a:0": write NAME or NAME:COUNT`, []string{"--need=a:0", at("p.dax")}},
		{exitUsage, "syntax error in pattern of names", []string{"--need=[=a", at("p.dax")}},
	} {
		expect(t, c.code, []string{c.says}, append([]string{"simulate", runs, "--cluster=" + at("c.yaml")},
			c.args...)...)
	}
	expect(t, exitOK, []string{", 2 of LIC"}, "explain", runs, "w", "a")
}

// An export asks for the memory that tasks of its run held, and the GPUs and resources that the command line gave them.
func TestExportsAskForWhatTasksHeld(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"p.dax":      `<adag name="p"><job id="ID1" name="x" runtime="3"/><job id="ID2" name="x" runtime="3"/></adag>`,
		"c.yaml":     "nodes: [{name: n, cores: 4, memory: 1GB, gpus: 1}]\n",
		"small.yaml": "nodes: [{name: n, cores: 1, memory: 240MB}]\n",
		"m.json": `{"name": "m", "schemaVersion": "1.4", "workflow": {"tasks": [{"id": "a", "name": "a", ` +
			`"runtimeInSeconds": 3, "memoryInBytes": 200000000}]}}`})
	at := func(name string) string { return filepath.Join(dir, name) }
	runs := "--dir=" + at("runs")
	for _, x := range [][2]string{{"m.json", "n.json"}, {"n.json", "o.json"}, {"o.json", "p.json"}} {
		expect(t, exitOK, []string{"makespan 3.00 s"}, "simulate", runs, "--cluster="+at("small.yaml"), at(x[0]))
		expect(t, exitOK, nil, "export", runs, "--format=wfformat", "-o", at(x[1]))
	}
	for _, c := range []struct{ by, again []string }{{[]string{"--gpus=0.6"}, nil},
		{[]string{"--resource=l=1", "--need=l"}, []string{"--resource=l=1"}}} {
		expect(t, exitOK, []string{"makespan 6.00 s"}, append([]string{"simulate", runs, "--cluster=" + at("c.yaml"),
			at("p.dax")}, c.by...)...)
		expect(t, exitOK, nil, "export", runs, "--format=wfformat", "-o", at("p.json"))
		expect(t, exitOK, []string{"makespan 6.00 s"}, append([]string{"simulate", runs, "--cluster=" + at("c.yaml"),
			at("p.json")}, c.again...)...)
	}
}

func TestAJobAsksForGPUsAndResources(t *testing.T) {
	dir := writeFiles(t, map[string]string{"c.yaml": "nodes: [{name: n, cores: 4, memory: 1GB, gpus: 1}]\n"})
	_, s := slurmServer(t, "--runtime", "null", "--cluster", filepath.Join(dir, "c.yaml"), "--resource", "l=2")
	for _, c := range []saying{
		{exitOK, "1", []string{"--gpus=1", "--licenses=l:2"}},
		{exitSlurm, "needs GPUs: 2, and no node", []string{"--gpus=2"}},
		{exitSlurm, "needs more of l than there are", []string{"--licenses=l,l:2"}},
		{exitSlurm, "needs 1 of m, of which there is none", []string{"-L", "m"}},
	} {
		expect(t, c.code, []string{c.says}, append(append([]string{"sbatch"}, c.args...), "--wrap", "true")...)
	}
	s.drain()
}
