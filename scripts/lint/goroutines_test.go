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
		root := filepath.Join("..", "..", dir)
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

// raced has the files of commands and sessions in which goroutines share state, and a test of each that make test runs
// under the race detector.
var raced = map[string]string{
	"single.go":                     "TestRunTakesOneCommand",
	"internal/session/forecast.go":  "TestThePageOfARunInContainers",
	"internal/session/images.go":    "TestAnImageThatIsSlowHoldsUpNobody",
	"internal/session/replay.go":    "-", // a function that reads once; the run is only read then
	"internal/session/sandbox.go":   "-", // what it starts only reads channels
	"internal/session/session.go":   "TestThePageOfARunInContainers",
	"internal/session/telemetry.go": "-", // a pipe is all that it shares
	"internal/session/upkeep.go":    "TestScratchFilesGoEarly",
}

func TestSharedStateOfGantryIsTestedUnderTheRaceDetector(t *testing.T) {
	paths, err := filepath.Glob("../../cmd/*.go")
	more, err2 := filepath.Glob("../../cmd/internal/session/*.go")
	if paths = append(paths, more...); err != nil || err2 != nil || len(more) == 0 {
		t.Fatal(paths, err, err2)
	}
	under := listed(t, "RACED")
	tests := map[string]bool{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		shares := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return strings.HasPrefix(i.Path.Value, `"sync`)
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok {
				tests[f.Name.Name] = true
			}
			_, starts := n.(*ast.GoStmt)
			shares = shares || starts
			return true
		})
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../cmd/")
		if !strings.HasSuffix(name, "_test.go") && shares != (raced[name] != "") {
			t.Errorf("goroutines share state in %s: %v; the list raced has %q", name, shares, raced[name])
		}
	}
	for name, test := range raced {
		if test != "-" && !slices.Contains(under, test) {
			t.Errorf("%s of %s is not in RACED of the Makefile", test, name)
		}
	}
	for _, test := range under {
		if !tests[test] {
			t.Errorf("RACED of the Makefile has %s, which is no test of cmd", test)
		}
	}
}

// listed are the words of a variable of the Makefile.
func listed(t *testing.T, variable string) []string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(strings.ReplaceAll(string(makefile), "\\\n", ""), "\n"+variable+" := ")
	line, _, _ := strings.Cut(rest, "\n")
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
