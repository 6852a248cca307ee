package generate_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gantry/trace/generate"
)

// choices are those of a kind with one parameter given.
func choices(t *testing.T, kind, key string, values ...string) *generate.Choices {
	t.Helper()
	k, err := generate.Find(kind)
	must(t, err)
	c := k.Choices()
	must(t, c.Set(key, values...))
	return c
}

func TestParametersAreReadAsTheirKindDeclaresThem(t *testing.T) {
	r := func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
	for _, c := range []struct {
		kind, key string
		values    []string
		is        func(p generate.Parameters) bool
	}{
		{"random", "fat", []string{"0.25"},
			func(p generate.Parameters) bool { return p.(*generate.Daggen).Fat == 0.25 }},
		{"daggen", "ccr", []string{"3"}, func(p generate.Parameters) bool { return p.(*generate.Daggen).CCR == 3 }},
		{"mapreduce", "map_time", []string{"10s"},
			func(p generate.Parameters) bool { return p.(*generate.MapReduce).LongestMap == 10*time.Second }},
		{"mapreduce", "slots", []string{"true"},
			func(p generate.Parameters) bool { return p.(*generate.MapReduce).Slots }},
		{"logsearch", "kept", []string{"1"},
			func(p generate.Parameters) bool {
				w, err := generate.New("logsearch", 3, 1, generate.Options{Parameters: p})
				return err == nil && w.Files[w.Tasks[0].Outputs[0]].Size == 64e6 &&
					strings.HasSuffix(w.Source, " --kept 1")
			}},
		{"plates", "kept", []string{"0.5..1"},
			func(p generate.Parameters) bool {
				w, err := generate.New("plates", 3, 1, generate.Options{Parameters: p})
				size := w.Files[w.Tasks[0].Outputs[0]].Size
				return err == nil && size > 16e6 && size < 32e6
			}},
		{"mixed", "processors", []string{"2 .. 5"},
			func(p generate.Parameters) bool { return p.(*generate.Mixed).Processors == [2]int{2, 5} }},
		{"mixed", "processors", []string{"3"},
			func(p generate.Parameters) bool { return p.(*generate.Mixed).Processors == [2]int{3, 3} }},
		{"mixed", "wdag", []string{"100", "200"},
			func(p generate.Parameters) bool { w := p.(*generate.Mixed).WDAG; return w > 100 && w < 200 }},
		{"mixed", "brange", []string{"1.5"},
			func(p generate.Parameters) bool { return p.(*generate.Mixed).BRange == 1.5 }},
	} {
		if p := choices(t, c.kind, c.key, c.values...).Parameters(r()); !c.is(p) {
			t.Errorf("%s %s %q: %+v", c.kind, c.key, c.values, p)
		}
	}
	for _, c := range []struct{ kind, key, value, want string }{
		{"random", "fat", "3", `fat is "3", but has to be from 0 to 1`},
		{"random", "jump", "0", `jump is "0", but has to be a whole number from 1 to 1000000`},
		{"random", "ccr", "1.5", "ccr is"},
		{"random", "shape", "1", "random workflows have no parameter shape"},
		{"mixed", "shape", "0", "above 0"},
		{"mixed", "brange", "2", "from 0 to below 2"},
		{"mixed", "processors", "4..2", "the range ends before it begins"},
		{"mixed", "processors", "1.5", "a range of them such as 1..4"},
		{"mixed", "wdag", "nan", "a range such as 100..1000"},
		{"mapreduce", "map_time", "soon", "a duration from 1s"},
		{"mapreduce", "slots", "some", "true or false"},
		{"plates", "kept", "-1", "a range such as 0.05..1, from 0 to 1000"},
		{"migration", "kept", "1", "migration workflows have no parameter kept"},
	} {
		k, err := generate.Find(c.kind)
		must(t, err)
		if err := k.Choices().Set(c.key, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s %q: %v, want %q", c.kind, c.key, c.value, err, c.want)
		}
	}
}

// Giving one parameter changes no other.
func TestOneParameterLeavesTheOthersAsTheyWere(t *testing.T) {
	draw := func(values ...string) *generate.Daggen {
		c := choices(t, "random", "jump", "1", "2", "3")
		if len(values) > 0 {
			must(t, c.Set("fat", values...))
		}
		return c.Parameters(rand.New(rand.NewPCG(7, 7))).(*generate.Daggen)
	}
	was, is := draw(), draw("0.1", "0.2")
	if is.Fat == was.Fat || is.Jump != was.Jump || is.Density != was.Density {
		t.Errorf("%+v, was %+v", is, was)
	}
}
