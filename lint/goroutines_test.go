package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// make test runs packages without the race detector that start no goroutine.
func TestPackagesTestedWithoutTheRaceDetectorStartNoGoroutine(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(makefile), "\nALONE := ")
	alone, _, _ := strings.Cut(rest, "\n")
	if alone == "" {
		t.Fatal("the Makefile has no ALONE")
	}
	for _, pattern := range strings.Fields(alone) {
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
