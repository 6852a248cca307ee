package sbatch

import (
	"regexp"
	"strings"
)

var (
	// nextflow matches the name that Nextflow gives to PROCESS (TAG).
	nextflow = regexp.MustCompile(`^nf-(.+?)(_\(.*\)?)?$`)
	// numbered is a name with a number at its end.
	numbered = regexp.MustCompile(`^(.*[A-Za-z])[-_.]?[0-9]+$`)
)

// Kind is the common part of the names of jobs of one type: the process of Nextflow (nf-align_(3) is align), or a name
// without the number at its end (align-3). Their estimates come from earlier jobs of the kind.
func Kind(name string) string {
	if m := nextflow.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	if m := numbered.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

// Workflow is the name of the workflow that a job belongs to if nobody gives it one.
func Workflow(name string) string {
	if strings.HasPrefix(name, "nf-") {
		return "nextflow"
	}
	return "sbatch"
}
