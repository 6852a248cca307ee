package predict

import (
	"fmt"
	"strconv"
	"strings"

	"gantry/trace/spelling"
)

// Kinds of estimators, as a Spec names them.
const (
	KindDeclared  = "declared"  // Declared: the trace
	KindCorrected = "corrected" // Corrected: declared, times the measured over the declared runtimes of the last tasks
	KindLearned   = "learned"   // Learned: a model of the measurements of the same task type, of this run, too
	KindTrained   = "trained"   // Trained: a model of the log
	KindOracle    = "oracle"    // the truth, which only a simulation knows
)

var kinds = []string{KindDeclared, KindLearned, KindCorrected, KindTrained, KindOracle}

// Bounds of Spec.Window.
const (
	DefaultWindow = 1000
	MaxWindow     = 10_000_000
)

// Spec names an estimator: declared, learned[:N], corrected[:M], trained[:MODEL[@VERSION]] or oracle. The same text
// means the same on the command line, in files and in the log.
type Spec struct {
	Kind string
	// learned: runs of each task type taken from earlier runs at most; corrected: tasks that the correction
	// looks at
	Window int
	Model  string // trained: NAME@VERSION, NAME, or "" for the latest
}

// ParseSpec reads a Spec; "" is declared.
func ParseSpec(text string) (Spec, error) {
	kind, value, has := strings.Cut(text, ":")
	s := Spec{Kind: kind}
	switch kind {
	case "", KindDeclared, KindOracle:
		if has {
			return s, fmt.Errorf("estimator %q: %s takes no parameter", text, kind)
		}
		if kind == "" {
			s.Kind = KindDeclared
		}
	case KindLearned, KindCorrected:
		s.Window = DefaultWindow
		if !has {
			break
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > MaxWindow {
			return s, fmt.Errorf("estimator %q: give a whole number from 1 to %d, as in %s:%d", text, MaxWindow, kind,
				DefaultWindow)
		}
		s.Window = n
	case KindTrained:
		if s.Model = value; has && value == "" {
			return s, fmt.Errorf("estimator %q: name a model after the colon (gantry predict ls lists them), or "+
				"leave it out for the latest", text)
		}
	default:
		return s, fmt.Errorf("estimator %q is not known; %s", text, spelling.Hint(kind, kinds))
	}
	return s, nil
}

// String returns the text that ParseSpec reads.
func (s Spec) String() string {
	switch {
	case s.Window != 0 && s.Window != DefaultWindow:
		return s.Kind + ":" + strconv.Itoa(s.Window)
	case s.Model != "":
		return s.Kind + ":" + s.Model
	}
	return s.Kind
}
