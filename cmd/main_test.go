package cmd

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gantry/executor/container/oci/image"
)

// memoryFile is a variable with a file: a gantry of the tests writes there what memory it took.
const memoryFile = "GANTRY_TEST_MEMORY"

// TestMain makes the program of the tests gantry where it is started under that name, or by gantryProcess.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name != "gantry" && name != "exe" {
		_ = flag.Set("test.parallel", "4") // unless it is given: they wait for containers
		_ = flag.Set("test.run", os.Getenv("GANTRY_TEST_RUN"))
		os.Exit(testsWithAStore(m))
	}
	code := gantry()
	if path := os.Getenv(memoryFile); path != "" {
		// What the kernel says of a process that ended counts its parent, which it began as.
		status, _ := os.ReadFile("/proc/self/status")
		os.WriteFile(path, status, 0o600)
	}
	os.Exit(code)
}

// apart are the tests that run beside others, and what more their gantry has in its environment.
var apart sync.Map

// testsWithAStore runs the tests with a store of images of their own, which nobody else cleans.
func testsWithAStore(m *testing.M) int {
	if os.Getenv(image.DirEnv) == "" {
		store, err := os.MkdirTemp("", "gantry-images")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(store)
		os.Setenv(image.DirEnv, store)
	}
	defer func() { endBrowser() }()
	return m.Run()
}

// inHere is held by a command that the process of the tests runs itself: the streams are those of the process.
var inHere sync.Mutex

// beside lets a test run beside others. Commands that may last run in processes of their own.
func beside(t *testing.T, environment ...string) {
	t.Helper()
	t.Parallel()
	apart.Store(t.Name(), environment)
}

// isApart returns what more the gantry of a test, or of a part of it, has in its environment.
func isApart(t *testing.T) (environment []string, ok bool) {
	name, _, _ := strings.Cut(t.Name(), "/")
	v, ok := apart.Load(name)
	if ok {
		environment = v.([]string)
	}
	return environment, ok
}

// gantryProcess is a process of gantry with those arguments, not yet started.
func gantryProcess(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	more, _ := isApart(t)
	cmd.Env = append(os.Environ(), more...)
	return cmd
}

// long skips a test that costs more than it finds for every landing.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// gantryLink is a path of gantry, for another program that is to start it.
func gantryLink(t *testing.T) (path string) {
	t.Helper()
	program, err := os.Executable()
	path = filepath.Join(t.TempDir(), "gantry")
	must(t, err)
	must(t, os.Symlink(program, path))
	return path
}
