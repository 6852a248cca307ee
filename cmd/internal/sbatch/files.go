package sbatch

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the paths of a job that Files returns, each way.
const (
	mostFiles = 16
	longest   = 256 // bytes of each
)

// absolute is a path in a script, as far as it has no character that shells treat specially.
var absolute = regexp.MustCompile("/[^\\s'\"|;&<>()$*?{}=,:`\\\\\\[\\]]+")

// Files returns the absolute paths that the job reads and writes, as far as its script tells. They say which kinds of
// jobs follow which. A script of Snakemake lists its files in a comment; a job of another system owns the directory
// that it works in, and reads the paths that its script names elsewhere, as those to which Nextflow links.
func (j *Job) Files() (reads, writes []string) {
	if _, text, ok := bytes.Cut(j.Script, []byte("\n# properties = ")); ok {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		var files struct{ Input, Output []string }
		if json.Unmarshal(line, &files) == nil {
			return j.absolute(files.Input), j.absolute(files.Output)
		}
	}
	for _, p := range absolute.FindAllString(string(j.Script), -1) {
		if p = path.Clean(p); p != j.Dir && !strings.HasPrefix(p, j.Dir+"/") {
			reads = append(reads, p)
		}
	}
	return j.absolute(reads), j.absolute([]string{j.Dir})
}

// absolute returns paths as seen from the directory of the job, distinct and in order.
func (j *Job) absolute(paths []string) (all []string) {
	for _, p := range paths {
		if !path.IsAbs(p) {
			p = path.Join(j.Dir, p)
		}
		if p = path.Clean(p); len(p) <= longest {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), mostFiles)]
}
