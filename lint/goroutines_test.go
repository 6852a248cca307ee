package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make test runs packages without the race detector that start no goroutine.
func TestPackagesTestedWithoutTheRaceDetectorStartNoGoroutine(t *testing.T) {
	for _, pattern := range listed(t, "ALONE") {
		dir, deep := strings.CutSuffix(pattern, "/...")
		root := filepath.Join("..", dir)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if err == nil && path != root && (!deep || d.Name() == "testdata") {
					return fs.SkipDir
				}
				return err
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				noGoroutine(t, path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Each test that the race detector skips is one that make test runs without it.
func TestSequentialTestsRunWithoutTheRaceDetector(t *testing.T) {
	paths, err := filepath.Glob("../cmd/gantry/*_test.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var got []string
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sequential" {
					got = append(got, f.Name.Name)
				}
				return true
			})
		}
	}
	want := listed(t, "SEQUENTIAL")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("tests that call oracletest.Sequential: %v; SEQUENTIAL of the Makefile: %v", got, want)
	}
}

// listed are the words of a variable of the Makefile.
func listed(t *testing.T, variable string) []string {
	t.Helper()
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(makefile), "\n"+variable+" := ")
	line, _, _ := strings.Cut(strings.ReplaceAll(rest, "\\\n", ""), "\n")
	if line == "" {
		t.Fatalf("the Makefile has no %s", variable)
	}
	return strings.Fields(line)
}

func noGoroutine(t *testing.T, path string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, i := range file.Imports {
		if i.Path.Value == `"sync"` {
			t.Errorf("%s imports sync", path)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			t.Errorf("%v: a goroutine", set.Position(g.Pos()))
		}
		return true
	})
}
