package order_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gantry/planner/plannertest"
	"gantry/planner/policy"
)

// run has a policy serve a scenario, and returns what happened.
func run(t *testing.T, spec, scenario string) *plannertest.Bench {
	t.Helper()
	pol, err := policy.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return plannertest.New(t, pol, scenario).RunAll()
}

// stream is the worked example of the online policies: a diamond, a chain and a fork, some seconds apart.
func stream(nodes string, apart int) string {
	return fmt.Sprintf(`
		nodes %s
		X     a=2 b=3 c=4 d=2 a>bc bc>d
		Y @%d e=3 f=1 e>f
		Z @%d g=1 h=1 i=1 k=1 l=1 g>hik hik>l`, nodes, apart, 2*apart)
}

// columns has the tasks of each second of a picture, on whichever core they are.
func columns(picture string) (out []string) {
	for line := range strings.SplitSeq(picture, "\n") {
		for i, task := range strings.TrimSpace(line[2:]) {
			if i == len(out) {
				out = append(out, "")
			}
			letters := []byte(strings.Trim(out[i]+string(task), "."))
			slices.Sort(letters)
			out[i] = string(letters)
		}
	}
	return out
}

func TestPoliciesOnAStreamOfThreeWorkflows(t *testing.T) {
	for _, c := range []struct {
		policy string
		apart  int
		want   string
	}{
		{"gbf:first", 1, "n0 aabbbfghddl\nn1 .eeeccccik"},
		{"cpp", 1, "n0 aaccccfddil\nn1 .eeebbbghk"},
		{"owm:order=highest", 1, "n0 aaccccgddkl\nn1 .eeebbbhif"},
		{"owm", 1, "n0 aaghfklbbbdd\nn1 .eeeicccc"},
		{"fdws", 1, "n0 aaghilccccdd\nn1 .eeekfbbb"},
		{"hr", 1, "n0 aaghfklbbbdd\nn1 .eeeicccc"},
		{"fwp", 1, "n0 aaccccilbbbdd\nn1 .eeeghkf"},
		{"wheft", 0, "n0 aaccccfddkl\nn1 eeegbbbhi"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			two := run(t, c.policy, stream("1 1", c.apart))
			two.Want(c.want)
			if one := run(t, c.policy, stream("2", c.apart)); !slices.Equal(columns(one.Ran()), columns(two.Ran())) {
				t.Errorf("on one node of two cores:\n%s\nand on two nodes:\n%s", one.Ran(), two.Ran())
			}
		})
	}
}

// The mean speed is 1. At 6 s the slowdown of C, which has waited for its second half, is (6 + 9) / 12 = 1.25, and that
// of E (2 + 9) / 9 = 1.22. By the mean run times, 4/3 as long, E would come first: 1.17 against 1.13.
func TestFairWorkflowPrioritizationTakesCriticalPathsAtTheAverageSpeed(t *testing.T) {
	run(t, "fwp", `
		nodes 1*3/2 1*1/2
		A     a=9
		C     c=3 d=9 c>d
		E @4  e=9`).Want(`
		n0 aaaaaadddddd
		n1 cccccceeeeeeeeeeeeeeeeee`)
}

// At 3 s the slowdown of B is (2 + 4) / 4 = 1.5 and that of C (1 + 2) / 2 = 1.5, and B came first. Tasks of C take
// 4 s together, twice its critical path: 1.5 times 2 is 3.
func TestFairWorkflowPrioritizationMayCountParallelism(t *testing.T) {
	for spec, want := range map[string]string{
		"fwp":                    "n0 aaabbbbccdd",
		"fwp:parallelism=factor": "n0 aaaccddbbbb",
	} {
		run(t, spec, `
			nodes 1
			A    a=3
			B @1 b=4
			C @2 c=2 d=2`).Want(want)
	}
}

// At 5 s the first node runs a task that should have ended, and so is as soon free as the second, which is idle: of
// equal finishes the lower node has b. With overrun=soon it is free a millisecond later.
func TestWorkloadHEFTTakesOverrunsAsEndingNow(t *testing.T) {
	for spec, want := range map[string]string{"wheft": "n0 ccccccccccccccccccccbbbbbbbbbb\nn1",
		"wheft:overrun=soon": "n0 cccccccccccccccccccc\nn1 .....bbbbbbbbbb"} {
		run(t, spec, "nodes 1 1\nC c=2(20)\nB @5 b=1(10)").Want(want)
	}
}

// At 0 s there is no room for b, and so c starts; at 3 s there is.
func TestTasksPassedOverAreLookedAtAgain(t *testing.T) {
	for _, spec := range []string{"gbf:pick=first", "owm", "fdws", "hr", "fwp"} {
		run(t, spec, "nodes 1 4\nA a=3x4\nB b=9x4 c=6").Want("n0 cccccc\nn1" +
			strings.Repeat(" aaabbbbbbbbb\n", 4))
	}
}
