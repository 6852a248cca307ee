package own_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/executor/own"
	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/policy"
	"gantry/planner/seed/seedtest"
	"gantry/trace/reader/readertest"
)

// asEnv says which program the test's own binary is.
const asEnv = "GANTRY_TEST_PROGRAM"

// TestMain makes the test's binary a program of a policy.
func TestMain(m *testing.M) {
	if as := os.Getenv(asEnv); as != "" {
		program(as)
		return
	}
	os.Exit(m.Run())
}

// message is the part of messages that programs here need.
type message struct {
	Type   string            `json:"type"`
	Whole  bool              `json:"whole"`
	Params map[string]string `json:"params"`
	Ready  []struct {
		Task int   `json:"task"`
		Rank int64 `json:"rank_ns"`
	} `json:"ready"`
	Arrived []struct {
		ID    int `json:"id"`
		Tasks []struct {
			ID   int   `json:"id"`
			Rank int64 `json:"rank_ns"`
		} `json:"tasks"`
	} `json:"arrived"`
	Started, Finished []struct {
		Task int `json:"task"`
	}
}

// program speaks the protocol as it is told to.
func program(as string) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var ready []int
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			panic(err)
		}
		if path := os.Getenv("GANTRY_TEST_HEARD"); path != "" {
			f, _ := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			f.Write(line)
			f.Close()
		}
		if m.Type == "begin" {
			fmt.Println(`{"protocol":1}`)
			continue
		}
		for _, r := range m.Ready {
			ready = append(ready, r.Task)
		}
		for _, s := range m.Started {
			ready = slices.DeleteFunc(ready, func(t int) bool { return t == s.Task })
		}
		slices.Sort(ready)
		ready = slices.Compact(ready)
		order, _ := json.Marshal(ready)
		switch as {
		case "first": // as gbf:first does, in workflows that arrive one after the other
			fmt.Printf("{\"order\":%s}\n", order)
		case "heft":
			if len(m.Arrived) == 0 {
				fmt.Println(`{"keep":true}`)
				continue
			}
			tasks := m.Arrived[0].Tasks
			slices.SortStableFunc(tasks, func(a, b struct {
				ID   int   `json:"id"`
				Rank int64 `json:"rank_ns"`
			}) int {
				return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.ID, b.ID))
			})
			var ids []int
			for _, t := range tasks {
				ids = append(ids, t.ID)
			}
			order, _ := json.Marshal(ids)
			fmt.Printf("{\"order\":%s,\"place\":\"earliest-finish\"}\n", order)
		case "late":
			time.Sleep(time.Hour)
		case "again": // once, after the answer
			fmt.Println(`{}`)
			if m.Whole {
				fmt.Println(`{}`)
			}
		case "leaves":
			fmt.Fprintln(os.Stderr, "I have\x1b no idea")
			os.Exit(3)
		case "child": // which holds the output and outlives it
			p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Files: []*os.File{nil,
				os.Stdout, os.Stderr}})
			if err != nil {
				panic(err)
			}
			os.WriteFile(os.Getenv("GANTRY_TEST_CHILD"), []byte(fmt.Sprint(p.Pid)), 0o600)
			fmt.Printf("{\"order\":%s}\n", order)
		case "long":
			text := strings.Repeat("x", 1<<20)
			for range 70 {
				fmt.Print(text)
			}
		default:
			fmt.Println(as)
		}
	}
}

// spec is the policy of the test's program.
func spec(t *testing.T, as string, more ...string) planner.Policy {
	t.Helper()
	t.Setenv(asEnv, as)
	path, err := os.Executable()
	must(t, err)
	pol, err := policy.Parse(strings.Join(append([]string{"exec:" + path}, more...), ","))
	must(t, err)
	t.Cleanup(pol.(planner.Ender).End)
	return pol
}

// Programs that give an order decide as policies of gantry with the same order and the same allocator.
func TestOrdersArePlacedAsByPoliciesOfGantry(t *testing.T) {
	for as, like := range map[string]string{"first": "gbf:first", "heft": "heft"} {
		for seed := range seedtest.Seeds(t, 6) {
			text := plannertest.Draw(rand.New(rand.NewPCG(seed, 3)), 1)
			pol, err := policy.Parse(like)
			must(t, err)
			want := plannertest.New(t, pol, text).RunAll().Ran()
			if got := plannertest.New(t, spec(t, as), text).RunAll().Ran(); got != want {
				t.Fatalf("seed %d: the program %s ran\n%s\nand %s\n%s\nof\n%s", seed, as, got, like, want, text)
			}
		}
	}
}

// Programs pass the generic tests of policies, and so do the examples.
func TestProgramsArePolicies(t *testing.T) {
	t.Run("in Go", func(t *testing.T) {
		plannertest.TestPolicy(t, func() planner.Policy { return spec(t, "first") })
	})
	t.Run("in Python", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("needs python3: the examples of policies are not run")
		}
		plannertest.TestPolicy(t, func() planner.Policy {
			pol, err := policy.Parse("exec:../../examples/policies/peft.py")
			must(t, err)
			return pol
		})
	})
}

// What a program says wrongly, late or not at all ends the run, and the error names the field.
func TestWhatProgramsSayWrongly(t *testing.T) {
	for said, says := range map[string]string{
		`{"start":[{"task":9,"node":0}]}`:                                 "start[0].task: there is no task 9",
		`{"start":[{"task":-1,"node":0}]}`:                                "there is no task -1",
		`{"start":[{"node":0}]}`:                                          "start[0].task is missing",
		`{"start":[{"task":0}]}`:                                          "start[0].node is missing",
		`{"start":[{"task":0,"node":7}]}`:                                 "start[0].node: there is no node 7",
		`{"start":[{"task":2,"node":0}]}`:                                 "task 2 is not ready, it is waiting",
		`{"start":[{"task":0,"node":0},{"task":0,"node":1}]}`:             "start[1].task: task 0 has a place already",
		`{"start":[{"task":0,"node":0},{"task":1,"node":0}]}`:             "start[1].node: task 1 needs",
		`{"start":[{"task":3,"node":0}]}`:                                 "start[0].node: task 3 needs",
		`{"start":[{"task":0,"node":0,"start_ns":5}]}`:                    "start[0].start_ns: a task of start starts now",
		`{"plan":[{"task":2,"node":0}]}`:                                  "a parent of task 2 has no place: plan parents first",
		`{"plan":[{"task":0,"node":0,"start_ns":-5}]}`:                    "plan[0].start_ns: task 0",
		`{"plan":[{"task":0,"node":0},{"task":2,"node":0,"start_ns":1}]}`: "a parent ends later",
		`{"order":[0,9]}`:                                                 "order[1]: there is no task 9",
		`{"order":[0,0]}`:                                                 "order[1]: task 0 is there twice",
		`{"order":[0],"place":"best"}`:                                    `place: "best" is not known: choose now or`,
		`{"preempt":[{"task":0}]}`:                                        "preempt[0].how: task 0 can only be frozen",
		`{"preempt":[{"task":0,"how":"stop"}]}`:                           `preempt[0].how: "stop" is not known`,
		`{"preempt":[{"task":0,"how":"restart"}]}`:                        "preempt[0].task: task 0: preempt: it does not run",
		`{"wake_ns":0}`:                                                   "wake_ns: 0 is not after now",
		`{"starts":[]}`:                                                   `unknown field "starts"`,
		`{"order":[5000000000]}`:                                          "order: number 5000000000 is of another type or size",
		`{"start":{}}`:                                                    "start: object is of another type",
		`{"order":[1.5]}`:                                                 "no message of the protocol",
		`{} {}`:                                                           "more than one value",
		`{}}`:                                                             "more than one value",
		`hello`:                                                           `it begins with "hello": standard output is for answers alone`,
		` `:                                                               "no message of the protocol",
		"{}\n{}":                                                          "more than one line to a message",
		"late":                                                            "does not answer within 300ms: make it",
		"long":                                                            "a line has more than 64 MiB",
		"leaves":                                                          "(exit status 3); its last words: I",
	} {
		t.Run(said, func(t *testing.T) {
			limit := "timeout=20s"
			if said == "late" {
				limit = "timeout=300ms"
			}
			b := plannertest.New(t, spec(t, said, limit), "nodes 1 1\nW a=3 b=2 c=1 a>c d=1x2")
			b.Arrive()
			_, err := b.Planner.Plan(t.Context(), 0)
			if strings.HasPrefix(says, "more than one line") && err == nil {
				_, err = b.Planner.Plan(t.Context(), 0)
			}
			if !errors.Is(err, own.ErrProgram) || !strings.Contains(err.Error(), says) ||
				!strings.HasPrefix(err.Error(), "round ") {
				t.Errorf("error %v does not say %q", err, says)
			}
		})
	}
}

// A line too much is no answer to a later message, also if it comes by itself.
func TestALineTooMuchEndsTheRun(t *testing.T) {
	b := plannertest.New(t, spec(t, "again"), "nodes 1\nW a=3")
	b.Arrive()
	for range 1000 {
		if _, err := b.Planner.Plan(t.Context(), 0); err != nil {
			if !strings.Contains(err.Error(), "more than one line") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("the program is one answer ahead, and nobody noticed")
}

func TestSpecsAreChecked(t *testing.T) {
	for text, says := range map[string]string{
		"exec:":                  "name a program",
		"exec:./nothing":         "no such file",
		"exec:./own_test.go":     "chmod +x",
		"exec:sh,x":              `"x" is no KEY=VALUE`,
		"exec:sh,a=1,a=2":        "a is given twice",
		"exec:sh,timeout=0s":     "timeout=\"0s\": give a time above 0",
		"exec:sh,freeze=perhaps": "choose yes or no",
		"exec":                   "name a program",
		"exce:sh":                "did you mean exec?",
	} {
		if _, err := policy.Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v does not say %q", text, err, says)
		}
	}
	if got := own.In("some/dir", "exec:../p.py,a=1"); !strings.HasSuffix(got, "/some/p.py,a=1") ||
		!filepath.IsAbs(strings.TrimPrefix(got, "exec:")) {
		t.Errorf("the path is %s", got)
	}
	for _, same := range []string{"exec:p.py", "exec:/p.py", "heft"} {
		if got := own.In("dir", same); got != same {
			t.Errorf("%s has become %s", same, got)
		}
	}
}

// The program and all that it started are gone once the run is over.
func TestTheProcessGroupEndsWithTheRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	t.Setenv("GANTRY_TEST_CHILD", file)
	b := plannertest.New(t, spec(t, "child"), "nodes 1\nW a=3").RunAll()
	var pid int
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid)
	}
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("there is no process %s: %v", text, err)
	}
	b.Planner.End()
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d outlives the run", pid)
}

// Messages are as the schema says, and one that is begun anew hears of all that there is.
func TestMessagesFollowTheSchema(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heard")
	t.Setenv("GANTRY_TEST_HEARD", file)
	schema := readertest.Schema(t, "../../docs/own-policies.schema.json")
	for _, text := range []string{
		"nodes 1*1/2 2/4\ngroups 1 1\nlink 1 0.5\nW due=90 a=3/1 b=2^ c=1x2 ab>c:5 >a:3@0\nV @1 d=2~",
		"nodes 1 1\nlink 2 overlapped\nW a=3 b=2 c=0 ab>c:5 d=2 c>d"} {
		b := plannertest.New(t, spec(t, "first"), text).Until(plannertest.Seconds(2))
		b.Planner.End()
		b.Planner.Restore()
		b.RunAll()
	}
	heard, err := os.ReadFile(file)
	must(t, err)
	whole := 0
	for line := range strings.Lines(string(heard)) {
		readertest.Validate(t, schema, []byte(line))
		var m message
		must(t, json.Unmarshal([]byte(line), &m))
		if m.Whole {
			if whole++; whole%2 == 0 && len(m.Started)+len(m.Ready) == 0 {
				t.Errorf("nothing is told of what runs: %s", line)
			}
		}
	}
	if whole != 4 {
		t.Errorf("%d times the whole state, want 4", whole)
	}
}

// listening is a policy that listens on a socket, in this process, and answers as told, round by round.
func listening(t *testing.T, more string, answer func(round int, said string) string) planner.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	l, err := net.Listen("unix", path)
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for round := 0; ; round++ {
			line, err := in.ReadString('\n')
			if err != nil {
				ended <- nil
				return
			}
			if round == 0 {
				fmt.Fprintln(conn, `{"protocol":1}`)
			} else {
				fmt.Fprintln(conn, answer(round, line))
			}
		}
	}()
	pol, err := policy.Parse("exec:" + path + more)
	must(t, err)
	t.Cleanup(func() {
		pol.(planner.Ender).End()
		l.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return pol
}

// What an answer asks for is done: tasks leave their places and continue, plans are kept and followed, or forgotten.
func TestWhatAnAnswerAsksForIsDone(t *testing.T) {
	for name, c := range map[string]struct {
		more, load, ran string
		answers         []string
	}{
		"freeze": {",freeze=yes", "nodes 1\nkeep memory\nA a=4\nB @1 b=1", "n0 abaaa", []string{
			`{"start":[{"task":0,"node":0}]}`,
			`{"preempt":[{"task":0,"how":"freeze"}],"start":[{"task":1,"node":0}]}`,
			`{"start":[{"task":1,"node":0}]}`, `{"start":[{"task":0,"node":0}]}`}},
		"restart": {"", "nodes 1\nA a=4~\nB @1 b=1", "n0 abaaaa", []string{`{"start":[{"task":0,"node":0}]}`,
			`{"preempt":[{"task":0}]}`, `{"start":[{"task":1,"node":0}]}`, `{"start":[{"task":0,"node":0}]}`}},
		"keep": {"", "nodes 1\nA a=1 b=2 c=1 a>b", "n0 abbc", []string{`{"plan":[{"task":0,"node":0},` +
			`{"task":1,"node":0},{"task":2,"node":0,"start_ns":3000000000}]}`, `{"keep":true}`, `{"keep":true}`}},
		"forget": {"", "nodes 1\nA a=1 b=2 c=1", "n0 acbb", []string{
			`{"plan":[{"task":0,"node":0},{"task":1,"node":0},{"task":2,"node":0}]}`,
			`{"start":[{"task":2,"node":0}]}`, `{"order":[1]}`}},
		"copies": {"", "nodes 1 1\nlink 1 overlapped\nA a=1 b=2 c=2 >a:1@1 a>b:2 a>c", "n0 .abb\nn1 ..cc", []string{
			`{"start":[{"task":0,"node":0}]}`, `{}`, `{"start":[{"task":1,"node":0},{"task":2,"node":1}]}`}},
		"wake": {"", "nodes 1\nA a=1", "n0 ..a", []string{`{"wake_ns":2000000000}`, `{"order":[0]}`}},
		"later": {"", "nodes 1\nA a=1", "n0 ..a", []string{`{"plan":[{"task":0,"node":0,"start_ns":2000000000}]}`,
			`{"order":[0]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := plannertest.New(t, listening(t, c.more, func(round int, said string) string {
				if round > len(c.answers) {
					return "{}"
				}
				return c.answers[round-1]
			}), c.load).RunAll()
			b.Want(c.ran)
			again := &own.Recorded{} // what the log has repeats the run
			for _, e := range b.Events {
				again.Take(e)
			}
			plannertest.New(t, again, c.load).RunAll().Want(c.ran)
		})
	}
}

// The log has the plans of a program for later, as far as they are news.
func TestPlansForLaterAreInTheLog(t *testing.T) {
	const load = "nodes 1 1\nA a=1 b=2 c=1 d=2 a>b"
	b := plannertest.New(t, listening(t, "", func(round int, _ string) string {
		return []string{
			`{"plan":[{"task":0,"node":0},{"task":1,"node":0},{"task":2,"node":0},{"task":3,"node":0}]}`,
			`{"plan":[{"task":1,"node":0},{"task":2,"node":0},{"task":3,"node":1,"start_ns":2000000000}]}`,
			`{"keep":true}`, `{"start":[{"task":2,"node":0}]}`, `{}`, `{}`}[round-1]
	}), load).RunAll()
	b.Want("n0 abbc\nn1 ..dd")
	got := ""
	for _, e := range b.Events {
		if pc, ok := e.Body.(*planner.PlanCommitted); ok {
			for _, n := range pc.Notes {
				got += fmt.Sprintf("%v %s %s %s %v\n", e.At, n.Topic, b.Names[n.Task], n.Text, n.At)
			}
		}
	}
	if want := "0s planned b n0 1s\n0s planned c n0 3s\n0s planned d n0 4s\n1s planned d n1 2s\n"; got != want {
		t.Errorf("the log has\n%s, want\n%s", got, want)
	}
}

// A program that is started anew in the middle of a run takes back what the log has of its plan.
func TestAPlanEndsWithItsProgram(t *testing.T) {
	b := plannertest.New(t, spec(t, "{}"), "nodes 1\nA a=1")
	b.Arrive()
	b.Round()
	b.Planner.End()
	b.Planner.Restore()
	pc, err := b.Planner.Plan(t.Context(), plannertest.Seconds(0.5))
	if err != nil || len(pc.Notes) != 1 || pc.Notes[0].Task != planner.None || pc.Notes[0].Text != "" {
		t.Errorf("the notes are %v, %v", pc, err)
	}
}

// A task whose token another one holds is ready again, and ends no run.
func TestATaskWithoutATokenIsReadyAgain(t *testing.T) {
	var heard []string
	b := plannertest.New(t, listening(t, "", func(round int, said string) string {
		heard = append(heard, said)
		return []string{`{"start":[{"task":0,"node":0},{"task":1,"node":1}]}`,
			`{"plan":[{"task":1,"node":0},{"task":2,"node":1}]}`, `{"order":[2,1]}`, `{}`}[round-1]
	}), "nodes 1 1\nA a=1 b=1 c=1")
	for i := range b.Flows[0].Tasks {
		b.Flows[0].Tasks[i].Tokens = planner.Tokens{1}
	}
	b.Planner.LimitTokens(planner.Tokens{1})
	b.RunAll().Want("n0 abc\nn1")
	if !strings.Contains(heard[1], `"ready":[{"task":1,"try":1,`) {
		t.Errorf("the second round is %s", heard[1])
	}
}

// A node that is lost is told, and ends a plan that was to be kept.
func TestALostNodeEndsThePlan(t *testing.T) {
	var heard []string
	b := plannertest.New(t, listening(t, "", func(round int, said string) string {
		if heard = append(heard, said); round == 1 {
			return `{"order":[0,1,2],"place":"earliest-finish"}`
		}
		return `{"keep":true}`
	}), "nodes 1 1\nA a=2 b=2 c=2")
	b.Step()
	b.Apply(planner.NodeChanged{Node: 1})
	b.Round()
	b.Round()
	if b.Planner.Draft().Plans() != 0 || !strings.Contains(heard[1], `"changed":[{"node":1,"capacity":[0,0,0,0]}]`) {
		t.Errorf("%d tasks are planned after %s", b.Planner.Draft().Plans(), heard[1])
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
