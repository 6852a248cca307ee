package trace

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	oneByOne = "hand in its programs one by one: gantry sbatch (docs/drive.md)"
	byHand   = "write it as a makeflow (docs/makeflow.md), or " + oneByOne
	byJobs   = "its system can hand its jobs to gantry (docs/drive.md)"
)

// system has files that gantry does not read. One has all the keys, or its name has one of these ends, or it has such a
// line; names say more than lines.
type system struct {
	is, way     string
	keys, names string
	line        *regexp.Regexp
}

var foreign = []system{
	{"a workflow or tool in CWL", byHand, "cwlVersion", ".cwl", nil},
	{"a HyperFlow workflow", byHand, "processes", "", nil},
	{"a HyperFlow workflow", byHand, "ins outs", "", nil},
	{"a workflow of Galaxy", byHand, "a_galaxy_workflow", ".ga .gxwf.yml", nil},
	{"a manifest of Kubernetes, such as a workflow of Argo", byHand, "apiVersion kind", "", nil},
	{"a file of Docker Compose", byHand, "services", "", nil},
	{"a file of Snakemake", byJobs, "", "snakefile .smk", regexp.MustCompile(`(?m)^(rule|checkpoint) \w+ *:`)},
	{"a workflow in WDL", "Cromwell can hand its jobs to gantry (docs/drive.md)", "", ".wdl",
		regexp.MustCompile(`\A(#.*\n|\s)*version +(1\.[0-9]|draft|development)|(?m:^task +\w+ *\{)`)},
	{"a file of Nextflow", byJobs, "", ".nf", regexp.MustCompile(`(?m)^(process|workflow) \w* *\{|^nextflow\.`)},
	{"a DAG of HTCondor", byHand, "", "", regexp.MustCompile(`(?mi)^(JOB \S+ \S|PARENT \S.* CHILD \S)`)},
	{"a workflow of the Cloud Workflow Simulator", byHand, "", "",
		regexp.MustCompile(`(?m)^(FILE|TASK \S+) \S+ [0-9.]+\s*$`)},
	{"a description of jobs of HTCondor", byHand, "", ".sub .submit", nil},
	{"a script of jobs", "gantry sbatch FILE runs it (docs/drive.md)", "", ".sbatch .slurm .pbs",
		regexp.MustCompile(`(?m)^#(SBATCH|PBS|\$ -)`)},
	{"a program in Python, such as a DAG of Airflow", byJobs, "", ".py",
		regexp.MustCompile(`\A#!.*python|(?m)^(from|import) airflow\b`)},
	{"a script", "gantry sbatch FILE runs it as one job (docs/drive.md)", "", ".sh .bash",
		regexp.MustCompile(`\A#!`)},
	{"a table", "gantry map runs a command for each row (docs/map.md)", "", ".csv .tsv", nil},
}

// ForeignKeys reports whether a JSON or YAML file with these keys belongs to another system.
func ForeignKeys(keys map[string]bool) bool { return foreignKeys(keys) >= 0 }

func foreignKeys(keys map[string]bool) int {
	lacks := func(key string) bool { return !keys[key] }
	return slices.IndexFunc(foreign, func(f system) bool {
		return f.keys != "" && !slices.ContainsFunc(strings.Fields(f.keys), lacks)
	})
}

// foreignFile says of which system a file is, and the way by which gantry runs it; "" if it knows none.
func foreignFile(keys map[string]bool, text []byte, source string) string {
	i := foreignKeys(keys)
	if i < 0 {
		name := strings.ToLower(path.Base(source))
		named := func(end string) bool { return strings.HasSuffix(name, end) }
		i = slices.IndexFunc(foreign, func(f system) bool {
			return slices.ContainsFunc(strings.Fields(f.names), named)
		})
	}
	if i < 0 {
		i = slices.IndexFunc(foreign, func(f system) bool { return f.line != nil && f.line.Match(text) })
	}
	if i < 0 {
		return ""
	}
	return foreign[i].is + ": " + foreign[i].way
}
