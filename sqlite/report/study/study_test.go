package study_test

import (
	"context"
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
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("study.yaml", "short: S\nexperiments: [{name: x, file: x.yaml}]\nrelations:\n"+relations)
	text, err := study.WritePage(context.Background(), []string{file}, []string{measured}, "", "", false)
	if err != nil {
		t.Fatal(err)
	}
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
		{ca + "claim: below}", "", "intervals overlap"},
		{ca + "claim: below, paper: -90}", "", "disagrees"},
		{ba + "claim: same, within: 0.3}", "", "agrees"},
		{ba + "claim: same}", "", "disagrees"},
		{ca + "claim: same}", "", "intervals overlap"},
		{aa + "claim: identical}", "", "agrees"},
		{ba + "claim: identical}", "", "disagrees"},
		{da + "claim: above}", "3 of 4 runs cut off", "one repetition only"},
		{up + "along: {param: load, values: [1, 2]}, claim: rises}", "+100 ±0 %", "agrees"},
		{up + "along: {param: load, values: [2, 1]}, claim: rises}", "−50", "disagrees"},
		{a1 + "claim: at-most, bound: 12}", "10.0 ±1.3", "agrees"},
		{a1 + "claim: at-most, bound: 11}", "", "intervals overlap"},
		{a1 + "claim: at-least, bound: 12}", "", "disagrees"},
		{a1 + "claim: near, paper: 12}", "", "agrees"},
		{a1 + "claim: near, paper: 30}", "", "disagrees"},
		{"{of: x, at: {policy: a, load: 1}, claim: stable}", "4 of 4 runs stable", "agrees"},
		{"{of: x, at: {policy: b, load: 1}, claim: stable}", "0 of 4", "disagrees"},
		{"{of: x, at: {policy: c, load: 1}, claim: stable}", "2 of 4", "intervals overlap"},
		{"{of: x, at: {policy: d, load: 1}, claim: unstable}", "3 cut off", "intervals overlap"},
		{"{of: x, at: {policy: none}, metric: m, claim: at-most, bound: 1}", "no results", "not measured"},
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
		"**intervals overlap**; 1 of 2 comparisons agree; 4 repetitions so far", "**4 of 5**", "**Not complete**",
		"| v1 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestStudiesThatCannotBe(t *testing.T) {
	const has = "short: S\nexperiments: [{name: x}]\n"
	for text, want := range map[string]string{
		"":                    "it is empty",
		"short: S\nfigs: 1\n": "line 2",
		has + "relations: [{says: it, checks: [{of: y, claim: below}]}]\n":            `experiment "y"`,
		has + "relations: [{says: it, checks: [{of: x, claim: best}]}]\n":             `claim "best"`,
		has + "relations: [{says: it, checks: [{of: x, metric: m, claim: below}]}]\n": "needs b",
		has + "figures: [{id: ../f, kind: bars, of: x, metric: m}]\n":                 "name of a file",
		has + "figures: [{id: f, kind: pie, of: x, metric: m}]\n":                     `kind "pie"`,
	} {
		path := filepath.Join(t.TempDir(), "study.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := study.Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The pages of the papers are those that the commands on them make of the result files beside them.
func TestPagesOfPapersAreGenerated(t *testing.T) {
	for _, dir := range []string{".", "rm-dcwf", "mows", "3dsf"} {
		t.Run(dir, func(t *testing.T) {
			t.Chdir(filepath.Join("../../../examples/experiments", dir))
			want, err := os.ReadFile("README.md")
			if err != nil {
				t.Fatal(err)
			}
			command := regexp.MustCompile("(?m)^This page: `([^`]*)`").FindSubmatch(want)
			if command == nil {
				t.Fatal("the page names no command")
			}
			got, err := study.WritePage(context.Background(), []string{"study.yaml"}, []string{"results"}, "",
				string(command[1]), false)
			if err != nil {
				t.Fatal(err)
			}
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
