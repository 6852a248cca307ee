package study_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gantry/sqlite/report/study"
)

// measured has policies a to d: m is 10, 8 (always 2 less), about 10 (the sign is open), and 20; 3 of 4 runs of d are
// cut off.
const measured = "testdata/measured.jsonl"

func page(t *testing.T, relations string) string {
	return pageOf(t, "", relations, measured)
}

func pageOf(t *testing.T, keys, relations string, paths ...string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	file := write("study.yaml", "short: S\nexperiments: [{name: x, file: x.yaml, readings: [other]}]\n"+keys+
		"relations:\n"+relations)
	text, err := study.WritePage(context.Background(), []string{file}, paths, "", "", false)
	must(t, err)
	return string(text)
}

func TestVerdictsFollowFromTheData(t *testing.T) {
	const (
		to = ", metric: m, "
		aa = "{of: x, at: {load: 1}, a: {policy: a}, b: {policy: a}" + to
		ba = "{of: x, at: {load: 1}, a: {policy: b}, b: {policy: a}" + to
		ca = "{of: x, at: {load: 1}, a: {policy: c}, b: {policy: a}" + to
		da = "{of: x, at: {load: 1}, a: {policy: d}, b: {policy: a}" + to
		a1 = "{of: x, at: {policy: a, load: 1}" + to
		up = "{of: x, at: {policy: a}" + to
	)
	for _, x := range []struct{ check, ours, verdict string }{
		{ba + "claim: below}", "−20.0 ±2.6 %", "agrees"},
		{ba + "claim: above}", "−20.0", "disagrees"},
		{ba + "claim: below, paper: -22}", "", "agrees"},
		{ba + "claim: below, paper: -60}", "", "agrees in sign"},
		{ca + "claim: below}", "", "not decided"},
		{ca + "claim: below, paper: -90}", "", "disagrees"},
		{ba + "claim: same, within: 0.3}", "", "agrees"},
		{ba + "claim: same}", "", "disagrees"},
		{ca + "claim: same}", "", "not decided"},
		{ca + "claim: same, as: difference, within: 2.5}", "", "agrees"}, // by an interval of 90 %
		{ca + "claim: same, as: difference, within: 2.2}", "", "agrees"},
		{ca + "claim: same, as: difference, within: 1.9}", "", "not decided"},
		{aa + "claim: identical}", "", "agrees"},
		{ba + "claim: identical}", "", "disagrees"},
		{da + "claim: above}", "3 of 4 runs cut off", "one repetition only"},
		{up + "along: {param: load, values: [1, 2]}, claim: rises}", "+100 ±0 %", "agrees"},
		{up + "along: {param: load, values: [2, 1]}, claim: rises}", "−50", "disagrees"},
		{a1 + "claim: at-most, bound: 12}", "10.0 ±1.3", "agrees"},
		{a1 + "claim: at-most, bound: 11}", "", "not decided"},
		{a1 + "claim: at-least, bound: 12}", "", "disagrees"},
		{"{of: x, at: {policy: a, load: 1}, metric: m-m, claim: at-most, bound: 0}", "0 ±0", "agrees"},
		{aa + "claim: above}", "0 ±0", "disagrees"}, // an order is strict
		{a1 + "claim: near, paper: 12}", "", "agrees"},
		{a1 + "claim: near, paper: 30}", "", "disagrees"},
		{"{of: x, at: {policy: a, load: 1}, claim: stable}", "in 4 of 4 runs, by drift in 4; by both in 51 to 100 %",
			"agrees"},
		{"{of: x, at: {policy: b, load: 1}, claim: stable}", "0 of 4", "disagrees"},
		{"{of: x, at: {policy: c, load: 1}, claim: stable}", "3 of 4 runs, by drift in 3; by both in 15 to 85 %",
			"agrees"}, // each in two thirds
		{"{of: x, at: {policy: c, load: 1}, claim: unstable}", "", "disagrees"},
		{"{of: x, at: {policy: d, load: 1}, claim: unstable}", "3 cut off", "agrees"},
		{"{of: x, at: {policy: none}, metric: m, claim: at-most, bound: 1}", "no results", "not measured"},
		{"{of: x, at: {policy: [a, none]}, metric: m, claim: at-most, bound: 99}", "no results", "not measured"},
	} {
		text := page(t, "  - says: it\n    where: here\n    checks: ["+x.check+"]\n")
		row := regexp.MustCompile(`(?m)^\| it .*$`).FindString(text)
		if !strings.Contains(row, x.ours) || !strings.Contains(row, "**"+x.verdict+"**") {
			t.Errorf("%s\ngives %s\nwant %s and %s", x.check, row, x.ours, x.verdict)
		}
	}
}

// The worst of several comparisons is the verdict, and repetitions that are missing are counted.
func TestTheWorstComparisonCounts(t *testing.T) {
	text := page(t, `  - says: it
    where: here
    checks:
      - {of: x, at: {load: 1}, each: [{policy: [a, b]}], metric: m, claim: at-most, bound: 9.5}
`)
	for _, want := range []string{"a, 1, m: 10.0 ±1.3", "b, 1, m: 8.0 ±1.3 (agrees)",
		"**not decided**; 1 of 2 comparisons agree; 28 repetitions would decide; 4 repetitions so far", "**4 of 5**",
		"**Not complete**", "| v1 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Typically: more than half of the comparisons agree, and none contradicts.
func TestMostComparisonsMayDo(t *testing.T) {
	check := func(bound string) string {
		return "{of: x, at: {load: 1}, each: [{policy: [a, b]}], metric: m, claim: at-most, bound: " + bound + "}"
	}
	for checks, want := range map[string]string{
		check("9.5") + ", " + check("12"): "(not decided)<br>b, 1, m: 8.0 ±1.3<br>a, 1, m: 10.0 ±1.3<br>" +
			"b, 1, m: 8.0 ±1.3 | **agrees**; 3 of 4 comparisons agree",
		check("9.5"):                    "**not decided**; 1 of 2 comparisons agree",
		check("5") + ", " + check("12"): "**disagrees**; 2 of 4 comparisons agree",
	} {
		text := page(t, "  - {says: it, where: here, mostly: true, checks: ["+checks+"]}\n")
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %s in\n%s", checks, want, text)
		}
	}
}

// A contradiction that is significant alone, at 4 %, is what chance shows among two comparisons. It takes 3.7
// repetitions alone, and (4.18/3.18)² as many by the quantile of 2.5 %.
func TestContradictionsAreCorrectedByHolm(t *testing.T) {
	for checks, want := range map[string]string{
		"[{of: x, at: {load: 1, policy: a}, metric: m, claim: at-most, bound: 8.65}]":                "**disagrees**",
		"[{of: x, at: {load: 1}, each: [{policy: [a, b]}], metric: m, claim: at-most, bound: 8.65}]": "**not decided**",
		"[{of: x, at: {load: 1, policy: a}, metric: m, claim: at-most, bound: 8.65}, " +
			"{of: x, at: {load: 1, policy: b}, metric: m, claim: at-most, bound: 12}]": "; 7 repetitions would decide",
		"[{of: x, at: {load: 1}, each: [{policy: [a, b]}], metric: m, claim: at-most, bound: 5}]": "**disagrees**",
	} {
		if text := page(t, "  - {says: it, where: here, checks: "+checks+"}\n"); !strings.Contains(text, want) {
			t.Errorf("%s: no %s in\n%s", checks, want, text)
		}
	}
}

// Marked statements never count as agreeing.
func TestMarkedStatementsAreCountedApart(t *testing.T) {
	const check = ", where: here, checks: [{of: x, at: {policy: a, load: 1}, metric: m, claim: at-most, bound: 12}]}\n"
	text := page(t, "  - {says: one"+check+"  - {says: two, mark: identity"+check+"  - {says: three, mark: fitted"+
		check)
	for _, want := range []string{"| the paper's text | 1 | 0 | 0 | 0 | 0 | 0 | fitted: 1, identity: 1 |",
		"*identity*: agrees", "*fitted*: agrees", "**agrees**"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Each statement has a verdict by the text and one by each reading, whose results replace those that it has. What a
// reading does not touch stays.
func TestReadingsHaveColumns(t *testing.T) {
	text, err := os.ReadFile(measured)
	must(t, err)
	other := filepath.Join(t.TempDir(), "other.jsonl")
	swap := strings.NewReplacer(`"experiment":"x"`, `"experiment":"x@other"`, `"policy":"a"`, `"policy":"b"`,
		`"policy":"b"`, `"policy":"a"`).Replace(string(text))
	must(t, os.WriteFile(other, []byte(swap), 0o644))
	const readings = "readings: [{name: other, says: Swapped., instead: {policy: {d: c}}}]\n"
	got := pageOf(t, readings, `  - {says: one, where: here,
      checks: [{of: x, at: {load: 1}, a: {policy: b}, b: {policy: a}, metric: m, claim: below}]}
  - {says: two, where: here, checks: [{of: x, at: {load: 1, policy: d}, claim: stable}]}
`, measured, other)
	for _, want := range []string{"ours, by the paper's text | verdict | ours, by other | verdict |",
		`(?m)^\| one .*\*\*agrees\*\*.*\*\*disagrees\*\*`,
		`(?m)^\| two .*d, 1: .*test in 1 of 4.*\*\*disagrees\*\*.* c, 1: .*in 3 of 4.*\*\*agrees\*\*`,
		"| other | 1 | 0 | 0 | 0 | 0 | 1 |  |", "`--reading other x.yaml`"} {
		if re, ok := strings.CutPrefix(want, "(?m)"); ok && regexp.MustCompile("(?m)"+re).MatchString(got) {
			continue
		}
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A reading may hold for a part of the cells: that at load 1 has b in the place of a, that at load 2 has not.
func TestReadingsHoldWhereTheySay(t *testing.T) {
	got := pageOf(t, "readings: [{name: part, says: Part., instead: {policy: {a: b}}, where: {load: 1}}]\n",
		`  - {says: one, where: here, checks: [{of: x, at: {policy: a}, along: {param: load, values: [1, 2]}, metric: m,
      claim: rises}]}
  - {says: two, where: here, checks: [{of: x, at: {policy: a, load: 2}, metric: m, claim: at-most, bound: 30}]}
  - {says: three, where: here, checks: [{of: x, at: {policy: a, load: 1}, claim: stable}]}
`, measured)
	for _, want := range []string{`^\| one .* 20\.0 ±2\.6 against 10\.0 .* 20\.0 ±2\.6 against 8\.0 `,
		`^\| two .*as by the text`, `^\| three .*\*\*agrees\*\*.* b, 1: .*\*\*disagrees\*\*`} {
		if !regexp.MustCompile("(?m)" + want).MatchString(got) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// A comparison of two experiments of which one lacks the reading is that of the text.
func TestReadingsCompareResultsOfTheReading(t *testing.T) {
	text, err := os.ReadFile(measured)
	must(t, err)
	paths := []string{measured}
	for _, name := range []string{"y", "y@other"} {
		path := filepath.Join(t.TempDir(), name+".jsonl")
		of := strings.Replace(string(text), `"experiment":"x"`, `"experiment":"`+name+`"`, 1)
		if name == "y@other" {
			of = strings.NewReplacer(`"policy":"a"`, `"policy":"b"`, `"policy":"b"`, `"policy":"a"`).Replace(of)
		}
		must(t, os.WriteFile(path, []byte(of), 0o644))
		paths = append(paths, path)
	}
	const head = "experiments: [{name: x}, {name: y, readings: [other]}]\nreadings: [{name: other, says: More.}]\n"
	for of, want := range map[string]string{"of: x, of_b: y": "as by the text", "of: y, of_b: x": "as by the text",
		"of: y, of_b: y": "identical: 8.0 ±1.3 against 8.0 ±1.3"} {
		file := filepath.Join(t.TempDir(), "study.yaml")
		must(t, os.WriteFile(file, []byte("short: S\n"+head+"relations: [{says: it, where: here, checks: [{"+of+
			", at: {policy: a, load: 1}, metric: m, label: identical, claim: identical}]}]\n"), 0o644))
		got, err := study.WritePage(t.Context(), []string{file}, paths, "", "", false)
		must(t, err)
		if row := regexp.MustCompile(`(?m)^\| it .*$`).FindString(string(got)); !strings.Contains(row, want) {
			t.Errorf("%s: no %q in %s", of, want, row)
		}
	}
}

// What no reading satisfies has the best verdict that was measured, but not by a reading that was fitted to it.
func TestNegativesAreWhatWasMeasured(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"page.md": "{{.Negatives}}", "study.yaml": `short: S
page: page.md
experiments: [{name: x}]
readings:
  - {name: other, says: Others., instead: {policy: {a: b, c: none}}, fitted: [two]}
relations:
  - {says: one, where: here, checks: [{of: x, at: {policy: a, load: 1}, metric: m, claim: at-most, bound: 9}]}
  - {says: two, where: here, checks: [{of: x, at: {policy: a, load: 1}, metric: m, claim: at-most, bound: 8.5}]}
  - {says: three, where: here, checks: [{of: x, at: {policy: c, load: 1}, metric: m, claim: at-most, bound: 1}]}
  - {says: four, where: here, checks: [{of: x, at: {policy: e, load: 1}, metric: m, claim: at-most, bound: 1}]}
  - {says: five, where: here, mark: bound, checks: [{of: x, at: {policy: a}, metric: m, claim: at-most, bound: 1}]}
  - {says: six, where: here, checks: [{of: x, at: {policy: a, load: 1}, metric: m, claim: at-most, bound: 9.5}]}
`} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	file := filepath.Join(dir, "study.yaml")
	got, err := study.WritePage(t.Context(), []string{file}, []string{measured}, "", "", false)
	must(t, err)
	want := "- one *(here)*: **not decided**. \n- two *(here)*: **disagrees**. \n- three *(here)*: **disagrees**. \n" +
		"- four *(here)*: **not measured**. \n"
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The ends of searches are a metric of tables: b is stable at no value, and nothing was searched for c.
func TestTablesHaveTheLargestStableValues(t *testing.T) {
	dir := t.TempDir()
	line := `{"params":{"policy":"%s","load":"0.5"},"repetitions":[],"states":[],"metrics":{}}` + "\n"
	for name, text := range map[string]string{"page.md": `{{.Table "t"}}`, "study.yaml": `short: S
page: page.md
experiments: [{name: x}]
metrics: {largest_stable: {label: largest, unit: "%", scale: 100}}
tables: [{id: t, title: T, of: x, rows: [policy], metrics: [largest_stable]}]
`, "x.jsonl": `{"format":"gantry-results-1","experiment":"x","searches":[{"params":{"policy":"a"},"parameter":"load",` +
		`"value":"0.97"},{"params":{"policy":"b"},"parameter":"load","value":null}]}` + "\n" +
		fmt.Sprintf(line, "a") + fmt.Sprintf(line, "b") + fmt.Sprintf(line, "c")} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	got, err := study.WritePage(t.Context(), []string{filepath.Join(dir, "study.yaml")},
		[]string{filepath.Join(dir, "x.jsonl")}, "", "", false)
	must(t, err)
	const want = "T.\n\n| policy | largest, % |\n| --- | --- |\n| a | 97 |\n| b | none |\n| c | – |\n"
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// An experiment that was interrupted before its first run is one without results.
func TestAnExperimentMayHaveNoRunsYet(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	must(t, os.WriteFile(empty, []byte(`{"format":"gantry-results-1","experiment":"x","repetitions":5}
{"params":{"policy":"a","load":"1"},"repetitions":[],"states":[],"metrics":{}}
`), 0o644))
	got := pageOf(t, "", "  - {says: it, where: here, checks: [{of: x, at: {policy: a}, claim: stable}]}\n", empty)
	if !strings.Contains(got, "no results | **not measured** |") || !strings.Contains(got, "**0 of 5**") {
		t.Errorf("the page is\n%s", got)
	}
}

func TestStudiesThatCannotBe(t *testing.T) {
	const has = "short: S\nexperiments: [{name: x}]\n"
	for text, want := range map[string]string{
		"":                    "it is empty",
		"short: S\nfigs: 1\n": `line 2: unknown key "figs"`,
		has + "relations: [{says: it, checks: [{of: y, claim: below}]}]\n":            `experiment "y"`,
		has + "relations: [{says: it, checks: [{of: x, claim: best}]}]\n":             `claim "best"`,
		has + "relations: [{says: it, checks: [{of: x, metric: m, claim: below}]}]\n": "needs b",
		has + "relations: [{says: it, mark: nice}]\n":                                 `mark "nice"`,
		has + "figures: [{id: ../f, kind: bars, of: x, metric: m}]\n":                 "name of a file",
		has + "figures: [{id: f, kind: pie, of: x, metric: m}]\n":                     `kind "pie"`,
	} {
		path := filepath.Join(t.TempDir(), "study.yaml")
		must(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := study.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A metric that no run has is a mistake, unless no run is there that could have it.
func TestAMetricThatNoRunHas(t *testing.T) {
	for check, want := range map[string]string{
		"at: {policy: a}, metric: m_maen": `no run has metric "m_maen"`,
		"at: {policy: a}, metric: m-n":    `"it": no run has metric "n"; known are drift_stable, m`,
		"at: {policy: f}, metric: n":      "<nil>",
		"at: {policy: a, load: 1}, metric: m, b: {policy: d}, metric_b: " +
			"drift_stabel": "did you mean drift_stable?",
	} {
		path := filepath.Join(t.TempDir(), "study.yaml")
		must(t, os.WriteFile(path, []byte("short: S\nexperiments: [{name: x}]\nrelations: [{says: it, "+
			"checks: [{of: x, claim: at-most, bound: 1, "+check+"}]}]\n"), 0o644))
		_, err := study.WritePage(t.Context(), []string{path}, []string{measured}, "", "", false)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", check, err, want)
		}
	}
}

// The pages of the papers are those that the commands on them make of the result files beside them.
func TestPagesOfPapersAreGenerated(t *testing.T) {
	for _, dir := range []string{".", "rm-dcwf", "mows", "3dsf"} {
		t.Run(dir, func(t *testing.T) {
			t.Chdir(filepath.Join("../../../examples/experiments", dir))
			want, err := os.ReadFile("README.md")
			must(t, err)
			command := regexp.MustCompile("(?m)^This page: `([^`]*)`").FindSubmatch(want)
			if command == nil {
				t.Fatal("the page names no command")
			}
			got, err := study.WritePage(context.Background(), []string{"study.yaml"}, []string{"results"}, "",
				string(command[1]), false)
			must(t, err)
			if plain(got) != plain(want) {
				t.Errorf("README.md is not what `%s` prints: make pages writes it again", command[1])
			}
		})
	}
}

// plain leaves out figures, which this test does not draw.
func plain(page []byte) string {
	drop := regexp.MustCompile(`(?m)^(!\[.*|\*Figure.*|)\n`)
	return drop.ReplaceAllString(string(page), "")
}

// Readings 1 and 2 satisfy a statement each that the other does not, 3 what 1 does and another one, 4 nothing.
func TestReadingsThatWereTried(t *testing.T) {
	s := &study.Study{Relations: []study.Relation{{Says: "a"}, {Says: "b"}, {Says: "c"}, {Says: "d"}}}
	const yes, no, open, none = study.Agrees, study.Disagrees, study.Undecided, study.Unmeasured
	trials := []study.Trial{{Name: "one", Verdicts: []study.Verdict{yes, no, no, none}},
		{Name: "two", Verdicts: []study.Verdict{no, yes, open, none}},
		{Name: "three", Verdicts: []study.Verdict{yes, no, yes, none}},
		{Name: "four", Verdicts: []study.Verdict{no, no, no, none}}}
	var b strings.Builder
	s.WriteTrials(&b, trials)
	for _, want := range []string{"1 of 4 statements are left out",
		"| a | x |  | x |  |\n| b |  | x |  |  |\n| c |  | ? | x |  |\n\n", "3. three: 2 of 4",
		"Most statements: reading 3, 2 of 4.", "Pareto front: 2 3.", "\n- a | b\n- b | c (2)\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
