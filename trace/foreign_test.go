package trace_test

import (
	"fmt"
	"strings"
	"testing"

	"gantry/trace"
	"gantry/trace/scenario"
)

// A file of another system is named as such, with the way that works, by its name or by its text.
func TestFilesOfOtherSystemsAreNamed(t *testing.T) {
	for _, c := range []struct{ name, text, says, way string }{
		{"Snakefile", "import os\n", "Snakemake", "drive.md"},
		{"qc/Snakefile", "configfile: 'c.yml'\n", "Snakemake", "drive.md"},
		{"-", "x = 1\nrule sort:\n    input: 'a'\n", "Snakemake", "drive.md"},
		{"main.nf", "include { A } from './a'\n", "Nextflow", "drive.md"},
		{"-", "#!/usr/bin/env nextflow\nprocess A {\n}\n", "Nextflow", "drive.md"},
		{"x.WDL", "version 1.0\n", "WDL", "Cromwell"},
		{"p.cwl", "$graph: []\ncwlVersion: v1.2\n", "CWL", "makeflow"},
		{"tool.json", `{"cwlVersion": "v1.0", "class": "Workflow", "name": "x"}`, "CWL", "makeflow"},
		{"dag.json", `{"name": "m", "processes": [{"name": "a"}], "signals": [], "ins": [], "outs": []}`, "HyperFlow",
			"makeflow"},
		{"dag.json", `{"name": "m", "functions": [], "processes": [{"name": "a"}]}`, "HyperFlow", "makeflow"},
		{"old.json", `{"tasks": [{"name": "a"}], "data": [], "ins": [], "outs": []}`, "HyperFlow", "makeflow"},
		{"-", "# of us\nversion 1.0\nworkflow x {\n}\n", "WDL", "Cromwell"},
		{"-", "task t {\n  command { echo }\n}\nworkflow w { call t }\n", "WDL", "Cromwell"},
		{"-", "import os\nfrom airflow.decorators import dag\n", "Airflow", "drive.md"},
		{"h.yml", "name: m\nprocesses: []\nsignals: []\n", "HyperFlow", "makeflow"},
		{"etl.py", "from airflow import DAG\n", "Airflow", "drive.md"},
		{"a.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\n", "Argo", "makeflow"},
		{"c.yml", "version: '3'\nservices:\n  a: {image: x}\n", "Compose", "gantry sbatch"},
		{"all.dag", "JOB A a.sub\n", "HTCondor", "makeflow"},
		{"-", "Job A a.sub\nparent A child B\n", "HTCondor", "makeflow"},
		{"m.dag", "# x\nTASK ID01 a::b:1.0 3.5\nEDGE ID01 ID02\n", "Cloud Workflow Simulator", "makeflow"},
		{"large.dag", "FILE a.txt 104312\nFILE b.txt 7\n", "Cloud Workflow Simulator", "makeflow"},
		{"a.sub", "queue 3\n", "HTCondor", "gantry sbatch"},
		{"run.sh", "echo hi\n", "a script", "gantry sbatch"},
		{"run", "#!/bin/sh\necho hi\n", "a script", "sbatch"},
		{"job", "#!/bin/bash\n#SBATCH -c 2\n", "a script of jobs", "sbatch"},
		{"s.csv", "a,b\n", "a table", "gantry map"},
	} {
		if kind := scenario.Kind([]byte(c.text)); kind != "" {
			t.Errorf("%s: a %s file", c.text, kind)
		}
		_, faults, err := trace.Read(strings.NewReader(c.text), c.name, trace.ReadOptions{})
		must(t, err)
		if said := fmt.Sprint(faults); !strings.Contains(said, c.says) || !strings.Contains(said, c.way) {
			t.Errorf("%s: %s", c.name, said)
		}
	}
}
