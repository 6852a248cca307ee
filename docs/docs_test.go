// Package docs_test runs every command block of README.md, docs/*.md and examples/pipeline against the built gantry.
package docs_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

// blockTimeout bounds one block, on a busy host, too. The slowest takes 15 s on an idle host of two cores.
const blockTimeout = 15 * time.Minute

// TestMain lets six pages run side by side: most blocks wait, for programs that last and for limits that hold.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// block is a fenced block of a page. Blocks of sh are commands, blocks of sql are queries on the log.
type block struct {
	line     int
	language string
	text     string
}

var fence = regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")

// contents are the languages of blocks that show what is in a file.
var contents = []string{"go", "groovy", "text", "yaml"}

// indented is a command in a block that has no fence, which nobody would run.
var indented = regexp.MustCompile(`(?m)^    +(\$ |bin/gantry |gantry |make |scripts/|sbatch |srun ).*$`)

func blocks(page string) []block {
	var all []block
	for _, m := range fence.FindAllStringSubmatchIndex(page, -1) {
		all = append(all, block{1 + strings.Count(page[:m[0]], "\n"), page[m[2]:m[3]], page[m[4]:m[5]]})
	}
	return all
}

// needsDocker reports whether a block starts containers or builds images.
var needsDocker = regexp.MustCompile(`gantry (run|serve|doctor|clean)\b|make demo|gantry image build`)

func TestEveryCommandBlockRuns(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := buildInto(t, root)
	docker := exec.Command("docker", "version").Run() == nil
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append([]string{"../README.md", "../examples/pipeline/README.md"}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.ReplaceAll(strings.TrimPrefix(page, "../"), "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir := checkout(t, root, bin)
			for _, m := range indented.FindAllString(fence.ReplaceAllString(string(text), ""), -1) {
				t.Errorf("a command outside of a block of sh is not run: %s", m)
			}
			for _, b := range blocks(string(text)) {
				t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
					switch {
					case b.language == "sql":
						query(t, filepath.Join(dir, "gantry-runs", "gantry.sqlite"), b.text)
					case slices.Contains(contents, b.language):
						t.Skipf("a block of %s is no command", b.language)
					case strings.Contains(b.text, "examples/policies") && !has("python3"):
						t.Skip("needs python3")
					case strings.Contains(b.text, "make test"):
						t.Skip("make test runs this test")
					case b.language != "sh":
						t.Errorf("a block of %q: commands are blocks of sh, which are run", b.language)
					case needsDocker.MatchString(b.text) && !docker:
						t.Skip("no Docker Engine answers: blocks with containers are not run")
					case strings.Contains(b.text, "snakemake") && !has("snakemake"):
						t.Skip("needs Snakemake (apt-get install snakemake)")
					case strings.Contains(b.text, "scripts/slurm") && !canSlurm():
						t.Skip("a Slurm cluster of virtual nodes takes root and Slurm's packages (make slurm)")
					case strings.Contains(b.text, "--runtime oci") && os.Geteuid() != 0:
						t.Skip("containers without a daemon take root")
					case strings.Contains(b.text, "--group") && os.Geteuid() != 0:
						t.Skip("a server of several users takes root")
					default:
						shell(t, dir, b.text)
					}
				})
			}
		})
	}
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// canSlurm reports whether this host can have a Slurm cluster of virtual nodes, without installing anything.
func canSlurm() bool {
	return has("slurmctld") && os.Geteuid() == 0
}

// buildInto builds both binaries as make build does, unless $GANTRY_TEST_BIN is where they were just built.
func buildInto(t *testing.T, root string) string {
	t.Helper()
	if bin := os.Getenv("GANTRY_TEST_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	for _, name := range []string{"gantry", "gantry-task"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, name), "./cmd/"+name)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	return bin
}

// checkout makes a directory that looks like a checkout after make build; runs and results stay in it.
func checkout(t *testing.T, root, bin string) string {
	t.Helper()
	// TMPDIR may be another user's, and root serves a group below directories of its own alone.
	dir, err := os.MkdirTemp("/tmp", "docs")
	if err == nil {
		err = os.Chmod(dir, 0o755) // jobs of root's run as nobody, and work below
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"cmd", "examples", "scripts", "Makefile"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell runs a block as a reader would who pastes it whole. The binaries are built already, so make does not build them
// again, and installs them below dir.
func shell(t *testing.T, dir, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), blockTimeout)
	defer cancel()
	const made = "make() { command make -o build DESTDIR=\"$PWD/installed\" \"$@\"; }\n"
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", made+text)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GANTRY_DIR=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

func query(t *testing.T, log, text string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+log+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for q := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(q) == "" {
			continue
		}
		rows, err := db.Query(q)
		if err != nil {
			t.Errorf("%v:\n%s", err, q)
			continue
		}
		if !rows.Next() {
			t.Errorf("no row: %v:\n%s", rows.Err(), q)
		}
		rows.Close()
	}
}
