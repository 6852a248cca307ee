package lint_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The commands that only read and compute build for macOS. Types are checked, as that takes a tenth of a build; without
// cgo, as nothing here compiles C for macOS.
func TestGantryBuildsForMacOS(t *testing.T) {
	gantry, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: "../..",
		Env: append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")}, "./cmd/gantry")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	packages.Visit(gantry, nil, func(p *packages.Package) {
		if strings.HasPrefix(p.PkgPath, "gantry") {
			seen++
		}
		for _, e := range p.Errors {
			t.Error(e)
		}
	})
	if seen < 50 {
		t.Errorf("%d packages of gantry were checked", seen)
	}
}
