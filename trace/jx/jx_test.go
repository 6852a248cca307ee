package jx_test

import (
	"strconv"
	"strings"
	"testing"

	"gantry/trace/jx"
)

// eval evaluates an expression in which N is 3 and AGAIN is N+1.
func eval(text string) (string, error) {
	memory := 1 << 28
	keep := func(bytes int) bool {
		memory -= bytes
		return memory >= 0
	}
	n, _, err := jx.Parse(text, keep)
	if err != nil {
		return "", err
	}
	again, _, err := jx.Parse("N+1", keep)
	if err != nil {
		return "", err
	}
	defined := map[string]any{"N": int64(3), "AGAIN": again}
	e := &jx.Evaluator{Keep: keep, Lookup: func(name string) (any, bool) {
		v, ok := defined[name]
		return v, ok
	}, List: func(dir string) ([]string, error) { return []string{dir + "1", dir + "2"}, nil }}
	v, err := e.Eval(n)
	return show(v), err
}

// show is a value as JX writes it.
func show(v any) string {
	var items []string
	switch x := v.(type) {
	case string:
		return strconv.Quote(x)
	case jx.List:
		for _, item := range x {
			items = append(items, show(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	case *jx.Object:
		for _, p := range x.Pairs {
			items = append(items, p.Key+":"+show(p.Value))
		}
		return "{" + strings.Join(items, ",") + "}"
	}
	text, _ := jx.Text(v)
	return text
}

func TestValuesOfExpressions(t *testing.T) {
	const people = `[{"name": "a", "age": 3}, {"name": "b", "age": 5, "tall": true}]`
	for text, want := range map[string]string{
		"1+2*3":                                  "7",
		"10-2-3":                                 "11", // from the right, as makeflow does
		"7/2":                                    "3",
		"7/2.0":                                  "3.5",
		"-7%4":                                   "-3",
		"7.5 % 2":                                "1",
		".5e1":                                   "5",
		"+N":                                     "3",
		"AGAIN*AGAIN":                            "16",
		`"n"+1`:                                  `"n1"`,
		`false+"n"`:                              `"falsen"`,
		`"a\n\u00e9\q"`:                          `"a\néq"`,
		"[1]+[2,]":                               "[1,2]",
		"1 < 2.5":                                "true",
		`"b" >= "a"`:                             "true",
		"2 > 2":                                  "false",
		"2 <= 2":                                 "true",
		"[1,{\"a\":2}] == [1,{\"a\":2}]":         "true",
		"{\"a\":1} != {\"b\":1}":                 "true",
		"[1] == [1,2]":                           "false",
		"null == null":                           "true",
		"not true or true":                       "true",
		"true || 1/0 == 1":                       "true", // the rest does not count
		"false && 1/0==1":                        "false",
		"!false and true":                        "true",
		"[5,6,7][-1]":                            "7",
		"[5,6,7,8][1:-1]":                        "[6,7]",
		"[5,6,7][2:1]":                           "[]",
		"[5,6][:9]":                              "[5,6]",
		`{"a": {"b": 1}}["a"]["b"]`:              "1",
		"[i*10 for i in range(4) if i % 2 == 1]": "[10,30]",
		`[x+y for x in ["a","b"] for y in ["c","d"]]`: `["ac","ad","bc","bd"]`,
		`{"k"+i: i for i in range(2), "last": N}`:     "{k0:0,k1:1,last:3}",
		"range(5,1,-2)": "[5,3]",
		"range(9223372036854775806,9223372036854775807)":    "[9223372036854775806]",
		`format("%d%% %s %g %i", 3, "x", 0.5, 4)`:           `"3% x 0.5 4"`,
		`format("%f %E", 0.5, 1.0)`:                         `"0.500000 1.000000E+00"`,
		`template("{N}-{ who }{{}}", {"who": "x"})`:         `"3-x{}"`,
		`join(["a","b"])`:                                   `"a b"`,
		`["a","b"].join(",")`:                               `"a,b"`,
		"ceil(2.1)":                                         "3",
		"floor(-2.1)":                                       "-3",
		"floor(2)":                                          "2",
		`basename("/a/b.txt", ".txt")`:                      `"b"`,
		`basename("")`:                                      `"."`,
		`dirname("/a/b/")`:                                  `"/a"`,
		"escape(\"a\\\"`$\")":                               "\"\\\"a\\\\\\\"\\\\`\\\\$\\\"\"",
		"len([1,2])":                                        "2",
		`keys({"a":1,"b":2})`:                               `["b","a"]`,
		`values({"a":1,"b":2})`:                             "[2,1]",
		`items({"a":1})`:                                    `[["a",1]]`,
		"schema(" + people + ")":                            `{name:"string",age:"integer",tall:"boolean"}`,
		`schema([{"a": 1.5, "b": [], "c": {}, "d": null}])`: `{a:"float",b:"array",c:"object",d:"null"}`,
		`like("abc", "b.$")`:                                "true",
		`listdir("d")`:                                      `["d1","d2"]`,
		"select(" + people + ", age > N)":                   `[{name:"b",age:5,tall:true}]`,
		people + ".where(name == \"a\").project(age)":       "[3]",
	} {
		if got, err := eval(text); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", text, got, err, want)
		}
	}
}

// Each mistake is told with its line.
func TestFaultsOfExpressions(t *testing.T) {
	for text, want := range map[string]string{
		`"x`:                         "1 open-quote a quote is not closed",
		"[1,\n2":                     "2 truncated the end of the file",
		"\n1 = 1":                    "2 syntax a single =",
		"1 2":                        "1 syntax after the end",
		"[1 2]":                      "1 syntax where a comma",
		"?":                          "1 syntax where a value should be",
		"1.2.3":                      "1 syntax is not a number",
		`"\uZZ"`:                     "1 syntax hexadecimal",
		"if":                         "1 syntax where a value should be",
		"[i for 1 in []]":            "1 syntax the name of a variable",
		`"a"(1)`:                     "1 syntax what is no function",
		"[1].2":                      "1 syntax after the end",
		"[1].(2)":                    "1 syntax a function should be",
		strings.Repeat("(", 10_000):  "1 bound nested deeper",
		strings.Repeat("1", 100_000): "1 bound characters",
		"UNKNOWN":                    "1 undefined-variable UNKNOWN",
		"rang(3)":                    "1 expression did you mean range?",
		`fetch("/etc/passwd")`:       "1 expression refused",
		"range()":                    "1 expression 1 to 3 arguments, and not 0",
		`range("a")`:                 "1 expression whole numbers",
		"range(1,2,0)":               "1 expression a step of 0",
		"[1]\n - 2":                  "1 expression does not apply",
		`"x" + 1/0`:                  "1 expression division by zero",
		"1.5 % 0.5":                  "1 expression division by zero",
		`-"x"`:                       "1 expression does not apply",
		"1 and true":                 "1 expression neither true nor false",
		"[1][1]":                     "1 expression out of range: the list has 1",
		`{"a":1}["b"]`:               `1 expression there is no key "b"`,
		"1[0]":                       "1 expression only lists have positions",
		"1[0:1]":                     "1 expression only lists have slices",
		`[1]["a":]`:                  "1 expression whole number",
		"{1: 2}":                     "1 expression a text",
		"[i for i in 3]":             "1 expression what is no list",
		"[i for i in [1] if i]":      "1 expression neither true nor false",
		`error("no")`:                `1 expression error: "no"`,
		`format("%d")`:               "1 expression no argument for %d",
		`format("%d", "x")`:          "1 expression does not format",
		`format("x", 1)`:             "1 expression 1 arguments too many",
		`format("%")`:                "1 expression ends with %",
		`template("{a b}")`:          "1 expression not the name",
		`template("}")`:              "1 expression a } without",
		`template("{")`:              "1 expression a { without",
		"join(3)":                    "1 expression has to be a list",
		"join([3])":                  "1 expression is no text",
		`ceil("x")`:                  "1 expression is no number",
		"len(3)":                     "1 expression takes a list",
		"keys([])":                   "1 expression takes an object",
		`like("a", "(")`:             "1 expression error parsing regexp",
		"select([1], true)":          "1 expression list of objects",
		"select([{}], 1)":            "1 expression true or false",
		"select([{}])":               "1 expression 2 arguments",
		"range(1000000000)":          "1 bound ",
		`[i for i in range(3000) for j in range(3000) if false]`: "1 bound more than 5000000 steps",
	} {
		_, err := eval(text)
		e, ok := err.(*jx.Error)
		if !ok || !strings.Contains(strconv.Itoa(e.Line)+" "+e.Rule+" "+e.Message, strings.SplitN(want, " ", 3)[2]) ||
			!strings.HasPrefix(want, strconv.Itoa(e.Line)+" "+e.Rule+" ") {
			t.Errorf("%.40s: %v, want %s", text, e, want)
		}
	}
}

// A makeflow is told where its operators group otherwise than the manual says, and of its parts as they are written.
func TestPartsOfATree(t *testing.T) {
	n, grouped, err := jx.Parse("{\"a\": 1-2-3,\n\"b\": [1]}", func(int) bool { return true })
	if err != nil || len(grouped) != 1 || grouped[0] != (jx.Grouped{Line: 1, Text: "a - b - c"}) {
		t.Errorf("%v, %v", grouped, err)
	}
	if keys := n.Keys(); len(keys) != 2 || keys[1] != "b" || n.Member("b").Line() != 2 || n.Member("c") != nil {
		t.Errorf("keys %q", keys)
	}
	if _, _, err := jx.Parse("[1,2]", func(int) bool { return false }); err == nil {
		t.Error("a tree without room")
	}
}
