package executor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gantry/executor"
	"gantry/executor/enginetest"
	"gantry/planner"
	"gantry/planner/plannertest"
	"gantry/planner/predict"
	"gantry/planner/seed/seedtest"
	"gantry/planner/unit"
	"gantry/trace"
)

// racks is a platform with that number of nodes in each rack; a byte takes a microsecond between racks and half of that
// within one.
func racks(sizes ...int) *planner.Platform {
	p := &planner.Platform{}
	for g, n := range sizes {
		p.Groups = append(p.Groups, fmt.Sprint("rack", g))
		row := make([]unit.BytesPerSecond, len(sizes))
		for h := range row {
			row[h] = 1e6
		}
		row[g] = 2e6
		p.Bandwidth, p.Latency = append(p.Bandwidth, row), append(p.Latency, make([]int64, len(sizes)))
		for range n {
			id := planner.NodeID(len(p.Nodes))
			p.Nodes = append(p.Nodes, planner.Node{ID: id, Name: fmt.Sprint("n", id), Group: planner.GroupID(g),
				Speed: 1, Capacity: unit.Vector{1000, unit.Unlimited, unit.Unlimited}})
		}
	}
	return p
}

// reader is a workflow of one task of ten seconds that reads a file of that size from outside.
func reader(size int64) *trace.Workflow {
	return &trace.Workflow{Name: "reader", Tasks: []trace.Task{{ID: "t", Kind: "k", Cores: 1, Retries: -1,
		Runtime: 10 * time.Second, Inputs: []int32{0}}},
		Files: []trace.File{{Name: "in", Size: size, Sized: true, Producer: -1}}}
}

func admit(t interface{ Fatal(...any) }, p *planner.Platform, scale float64,
	sub executor.Submission) *executor.Admission {
	adm, err := (&executor.Admitter{Platform: p, TimeScale: 1, SizeScale: scale}).Admit(&sub, 0)
	if err != nil {
		t.Fatal(err)
	}
	return adm
}

func TestReplicasLieAsHDFSPutsThem(t *testing.T) {
	seedtest.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "racks")
		p := racks(sizes...)
		want := rapid.IntRange(1, 8).Draw(t, "replicas")
		sub := executor.Submission{Name: "r", Workflow: reader(1000), Data: &executor.Placement{Rule: executor.HDFS,
			Block: 100, Replicas: want, Seed: rapid.Uint64().Draw(t, "seed")}}
		adm := admit(t, p, 1, sub)
		if len(adm.Files) != 10 {
			t.Fatalf("%d blocks, want 10", len(adm.Files))
		}
		for i, f := range adm.Arrived.Files {
			rack := func(k int) planner.GroupID { return p.Nodes[f.Homes[k]].Group }
			if len(f.Homes) != min(want, len(p.Nodes)) ||
				len(slices.Compact(slices.Sorted(slices.Values(f.Homes)))) != len(f.Homes) {
				t.Fatalf("block %d on %v, want %d different nodes", i, f.Homes, min(want, len(p.Nodes)))
			}
			if len(f.Homes) > 1 && len(sizes) > 1 && rack(0) == rack(1) {
				t.Fatalf("block %d: the second replica is in the rack of the first: %v", i, f.Homes)
			}
			if len(f.Homes) > 2 && len(sizes) > 1 && sizes[rack(1)] > 1 && rack(2) != rack(1) {
				t.Fatalf("block %d: the third replica is not in the rack of the second: %v", i, f.Homes)
			}
			if !reflect.DeepEqual(f.Homes, adm.Files[i].Homes) {
				t.Fatalf("block %d is planned on %v, and lies on %v", i, f.Homes, adm.Files[i].Homes)
			}
		}
		if again := admit(t, p, 1, sub); !reflect.DeepEqual(again.Arrived.Files, adm.Arrived.Files) {
			t.Fatal("the same seed drew other nodes")
		}
	})
}

func TestBlocksCoverTheFile(t *testing.T) {
	data := &executor.Placement{Rule: executor.Random, Block: 400, Replicas: 1, Seed: 1}
	adm := admit(t, racks(3), 0.5, executor.Submission{Name: "r", Workflow: reader(1001), Inputs: "/data", Data: data})
	var sizes, from, to []unit.Bytes
	var names []string
	for i, f := range adm.Files {
		sizes, from, to, names = append(sizes, f.Size), append(from, f.From), append(to, f.To),
			append(names, f.NodeName())
		if adm.Arrived.Files[i].Size != f.Size || f.External != "/data/in" || f.Name != "in" {
			t.Errorf("block %d: %+v, %+v", i, f, adm.Arrived.Files[i])
		}
	}
	if want := []string{"in.block-0000", "in.block-0001", "in.block-0002"}; !reflect.DeepEqual(names, want) {
		t.Errorf("names %v", names)
	}
	// The last one continues to the end of the real file; sizes are scaled, and sum up to that of the whole.
	if !reflect.DeepEqual(from, []unit.Bytes{0, 400, 800}) || !reflect.DeepEqual(to, []unit.Bytes{400, 800, 0}) ||
		!reflect.DeepEqual(sizes, []unit.Bytes{200, 200, 101}) {
		t.Errorf("from %v to %v, sizes %v", from, to, sizes)
	}
	if ids := adm.Arrived.Tasks[0].Inputs; len(ids) != 3 || len(adm.Tasks[0].Inputs) != 3 {
		t.Errorf("the task reads %v and %d", ids, len(adm.Tasks[0].Inputs))
	}
	if whole := admit(t, racks(3), 1, executor.Submission{Name: "r", Workflow: reader(1001)}); len(whole.Files) != 1 ||
		whole.Files[0].Homes != nil || whole.Files[0].Blocks != 0 {
		t.Errorf("without placement: %+v", whole.Files[0])
	}
}

// Two racks of one node each and a file of two blocks of 3 MB, one replica each: a task has to fetch what is not on its
// node, 1 MB/s.
// The blocks of all files together are bounded, by the sizes that files really have: a sparse file takes no disk.
func TestBlocksOfAllFilesAreBounded(t *testing.T) {
	for _, size := range []int64{100_000, 1 << 60} {
		sub := executor.Submission{Name: "w", Workflow: &trace.Workflow{}, Data: &executor.Placement{Block: 1}}
		for i := range 11 {
			sub.Workflow.Files = append(sub.Workflow.Files, trace.File{Name: fmt.Sprint(i), Producer: -1})
			sub.Sources = append(sub.Sources, executor.Source{Path: fmt.Sprint("/", i), Size: size})
		}
		if _, err := (&executor.Admitter{Platform: racks(1), TimeScale: 1, SizeScale: 1}).Admit(&sub, 0); err == nil ||
			!strings.Contains(err.Error(), "give a larger block") {
			t.Errorf("11 files of %d blocks: %v", size, err)
		}
	}
}

// The size of a file is the one that was found: nobody looks for it again, perhaps with other rights.
func TestSizesAreThoseOfSources(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here")
	must(t, os.WriteFile(here, []byte("text"), 0o600))
	sub := executor.Submission{Name: "w", Workflow: reader(0), Sources: []executor.Source{{Path: here, Size: 7}}}
	sub.Workflow.Files[0].Sized = false
	if f := admit(t, racks(1), 1, sub).Files[0]; f.Size != 7 || !f.Sized {
		t.Errorf("the file has %d bytes (known: %t), want those of its source", f.Size, f.Sized)
	}
}

func TestWhatIsNotLocalIsCopied(t *testing.T) {
	for _, overlapped := range []bool{false, true} {
		p := racks(1, 1)
		p.Overlapped = overlapped
		var w trace.Workflow
		for i := range 6 {
			w.Files = append(w.Files, trace.File{Name: fmt.Sprint("in", i), Size: 3e6, Sized: true, Producer: -1})
			w.Tasks = append(w.Tasks, trace.Task{ID: fmt.Sprint("t", i), Kind: "k", Cores: 1, Retries: -1,
				Runtime: 10 * time.Second, Inputs: []int32{int32(i)}})
		}
		sub := executor.Submission{Name: "w", Workflow: &w, Data: &executor.Placement{Rule: executor.HDFS, Replicas: 1,
			Seed: 5}}
		adm := admit(t, p, 1, sub)
		b := stagedRun(t, p, sub)
		local, remote := 0, 0
		for i, a := range b {
			here := adm.Arrived.Files[i].Homes[0] == a.node
			want := unit.Bytes(0)
			if !here {
				want = 3e6
			}
			if a.usage.InputBytes != 3e6 || a.usage.CopiedBytes != want {
				t.Errorf("overlapped %v, task %d on node %d, file on %v: %d of %d bytes copied", overlapped, i, a.node,
					adm.Arrived.Files[i].Homes, a.usage.CopiedBytes, a.usage.InputBytes)
			}
			if took := a.usage.Staged.Sub(a.usage.Queued); !overlapped && took != time.Duration(want)*1000 {
				t.Errorf("task %d waited %v for its input", i, took)
			}
			if here {
				local++
			} else {
				remote++
			}
		}
		if local == 0 || remote == 0 {
			t.Fatalf("%d local and %d remote tasks test nothing", local, remote)
		}
	}
}

type stagedAttempt struct {
	node  planner.NodeID
	usage planner.Usage
}

// stagedRun simulates one workflow and returns the attempt of each task.
func stagedRun(t *testing.T, p *planner.Platform, sub executor.Submission) map[planner.TaskID]stagedAttempt {
	t.Helper()
	out := map[planner.TaskID]stagedAttempt{}
	e := streamEngine(t, p, "gbf:pick=first", &predict.Declared{}, []executor.Submission{sub})
	e.Watch = func(v planner.View, events []planner.Event, _ []*executor.Admission) {
		for _, ev := range events {
			if x, ok := ev.Body.(*planner.AttemptExited); ok {
				att := v.Attempt(x.Attempt)
				out[att.Task] = stagedAttempt{att.Node, x.Usage}
			}
		}
	}
	enginetest.Run(t, e)
	return out
}

// A block is fetched from the nearest replica, and one that was copied counts as another.
func TestReplicasAreKnownToThePlanner(t *testing.T) {
	p := racks(2, 2)
	s := planner.NewState(p, planner.DefaultRetryRules())
	arrived := &planner.WorkflowArrived{Tasks: []planner.Task{{ID: 0}},
		Files: []planner.File{{ID: 0, Size: 1e6, Producer: planner.None, Homes: []planner.NodeID{0, 2}}}}
	plannertest.Order(arrived)
	must(t, s.Apply(planner.Event{Seq: 1, Body: arrived}))
	for n, want := range []struct {
		has  bool
		from planner.NodeID
	}{{true, 0}, {false, 0}, {true, 2}, {false, 2}} {
		if has, from := s.View().Has(planner.NodeID(n), 0), s.View().Nearest(0, planner.NodeID(n)); has != want.has ||
			from != want.from {
			t.Errorf("node %d: has it %v, fetches from %d; want %+v", n, has, from, want)
		}
	}
	must(t, s.Apply(planner.Event{Seq: 2, Body: planner.FileAppeared{File: 0, Node: 3}}))
	if !s.View().Has(3, 0) || s.View().Has(1, 0) {
		t.Error("a copy is not known, or too much is")
	}
	bad := &planner.WorkflowArrived{Workflow: planner.Workflow{ID: 1},
		Files: []planner.File{{ID: 1, Producer: planner.None, Homes: []planner.NodeID{4}}}}
	if err := s.Apply(planner.Event{Seq: 3, Body: bad}); err == nil {
		t.Error("a file on a node that does not exist is taken")
	}
}

// The size of a task's inputs is known beforehand also where the trace lacks the sizes of files between tasks: the
// inputs of the tasks that make them stand in, once for each.
func TestFilesWithoutASizeCountAsWhatTheirMakersRead(t *testing.T) {
	file := func(name string, size int64, producer int32) trace.File {
		return trace.File{Name: name, Size: size, Sized: size > 0, Producer: producer}
	}
	task := func(id string, in, out []int32) trace.Task {
		return trace.Task{ID: id, Kind: id, Cores: 1, Retries: -1, Runtime: time.Second, Known: trace.Runtime,
			Inputs: in, Outputs: out}
	}
	w := &trace.Workflow{Name: "w", Label: "w", Files: []trace.File{file("a", 100, -1), file("b", 10, -1),
		file("x", 0, 2), file("y", 0, 2), file("sized", 7, 2), file("z", 0, 1)},
		Tasks: []trace.Task{task("last", []int32{1, 5, 2}, nil), task("middle", []int32{2, 3, 4}, []int32{5}),
			task("first", []int32{0}, []int32{2, 3, 4})}}
	w.Tasks[0].Parents, w.Tasks[1].Parents = []int32{1, 2}, []int32{2}
	w.Tasks[1].Children, w.Tasks[2].Children = []int32{0}, []int32{0, 1}
	w.Tasks[2].Reads = new(int64) // known in the run of an export, whose sizes do not count in this one
	adm := admit(t, racks(1), 1, executor.Submission{Name: "w", Workflow: w})
	for i, want := range []unit.Bytes{117, 107, 100} { // the last would have 10, 107 and 100: more than all files are
		if got := adm.Arrived.Tasks[i].Reads; got != want || adm.Tasks[i].Reads != want {
			t.Errorf("%s reads %d bytes, want %d", w.Tasks[i].ID, got, want)
		}
	}
}
