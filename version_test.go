package release

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// The number of a version stands in VERSION; other files that programs read repeat it.
func TestFilesAgreeOnTheVersion(t *testing.T) {
	want := strings.TrimSpace(Version)
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-dev)?$`).MatchString(want) {
		t.Errorf("VERSION has %q: want a number such as 0.1.0, or 0.1.0-dev", want)
	}
	citation, err := os.ReadFile("CITATION.cff")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(citation), "\nversion: "+want+"\n") {
		t.Errorf("CITATION.cff has another version than VERSION, which has %s", want)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if number, _, _ := strings.Cut(want, "-"); !strings.Contains(string(changes), "\n## "+number) {
		t.Errorf("CHANGELOG.md has no section of %s", number)
	}
}

func TestABuildNamesItsCommit(t *testing.T) {
	for want, settings := range map[string][]debug.BuildSetting{
		"":               {{Key: "vcs", Value: "git"}},
		"5f1d06c7":       {{Key: "vcs.revision", Value: "5f1d06c7aab7f2a8b0d1"}, {Key: "vcs.modified", Value: "false"}},
		"5f1d06c7-dirty": {{Key: "vcs.revision", Value: "5f1d06c7aab7f2a8b0d1"}, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := builtFrom(settings); got != want {
			t.Errorf("built from %q, want %q", got, want)
		}
	}
}
