package spelling_test

import (
	"testing"

	"gantry/trace/spelling"
)

func TestNearestIsAWordThatMayHaveBeenMeant(t *testing.T) {
	known := []string{"montage", "cybershake", "epigenomics", "pi", "hr", "fwp", "fdws", "heft", "random1", "random2"}
	for word, want := range map[string]string{"montge": "montage", "Montaeg": "montage", "epigenomic": "epigenomics",
		"cyber": "", "": "",
		"fdsw": "fdws", "FWP": "fwp", "fpw": "fwp", "h": "hr", "xx": "", "best": "", "random": "random1",
		"random3": "random1", "random22": "random2", "montage": "montage"} {
		if got := spelling.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestHintNamesAllWordsWhereNoneIsNear(t *testing.T) {
	known := []string{"fixed", "batch", "two\nlines"}
	for word, want := range map[string]string{"fixd": "did you mean fixed?", "two lines": "did you mean two^Jlines?",
		"weibull": "known are fixed, batch, two^Jlines"} {
		if got := spelling.Hint(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
