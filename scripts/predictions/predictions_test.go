// Package predictions measures gantry's predictions of runtimes and memory, of programs in containers and on data that
// others published, beside their own methods on the same split, and holds them to bars. Tables of all figures are on
// the page, which make predictions writes again.
//
// The data are clones of CRC-FONDA/Lotaru and dos-group/sizey. They have no licence, and so are not part of gantry.
package predictions

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var large = flag.Bool("large", false, "run containers, too, and write the tables of the page again")

const page = "examples/predict/README.md"

// begin goes to the directory of the project, and returns the directory of the data that a variable names. It skips a
// test that lacks these, or that runs containers for minutes.
func begin(t *testing.T, containers bool, variable string) (data string) {
	t.Helper()
	t.Chdir("../..")
	if data = os.Getenv(variable); variable != "" && data == "" {
		t.Skipf("needs %s: %s says where the data are", variable, page)
	}
	if containers && !*large {
		t.Skip("runs containers for minutes: make predictions does")
	}
	return data
}

// must ends a test that cannot measure.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bar holds a figure to its bounds.
func bar(t *testing.T, figure string, is, least, most float64) {
	t.Helper()
	if !(least <= is && is <= most) {
		t.Errorf("%s: %.1f is not from %g to %g", figure, is, least, most)
	}
}

// publish puts a text between a heading of a page and the next one, or the end.
func publish(t *testing.T, page, heading, text string) {
	t.Helper()
	t.Logf("%s\n\n%s", heading, text)
	old, err := os.ReadFile(page)
	must(t, err)
	before, after, found := strings.Cut(string(old), heading+"\n")
	if !found {
		t.Fatalf("%s has no line %q", page, heading)
	}
	_, rest, more := strings.Cut(after, "\n## ")
	if more {
		rest = "\n## " + rest
	}
	if *large {
		must(t, os.WriteFile(page, []byte(before+heading+"\n\n"+strings.TrimSpace(text)+"\n"+rest), 0o644))
	}
}
