// Package release has the number of this version.
package release

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// Version is the number, as the file VERSION has it, with the end of its line.
//
//go:embed VERSION
var Version string

// Commit is that of the sources. make and releases set it; "" leaves it to the Go tool's note.
var Commit string

// Build names the build: its number and the commit of its sources, if anything knows that.
func Build() string {
	number, from := strings.TrimSpace(Version), Commit
	if info, ok := debug.ReadBuildInfo(); ok && from == "" {
		from = builtFrom(info.Settings)
	}
	if from == "" {
		return number
	}
	return number + " (" + from + ")"
}

// builtFrom is the commit that the Go tool noted, "" if it noted none.
func builtFrom(settings []debug.BuildSetting) string {
	var revision, changed string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 8)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
