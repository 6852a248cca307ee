package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"gantry/executor"
	"gantry/executor/container/fetch"
	"gantry/executor/docker"
	"gantry/executor/oci"
	"gantry/executor/oci/image"
	"gantry/planner"
)

// withoutDaemon has rigs make their containers by an OCI runtime.
var withoutDaemon bool

func capabilities() *executor.Capabilities {
	if withoutDaemon {
		return &oci.Capabilities
	}
	return &docker.Capabilities
}

// archiveEnv names an archive of the image busybox, for hosts without a Docker Engine. Tests then take what rights they
// can get without root.
const archiveEnv = "GANTRY_TEST_ARCHIVE"

// store has the image busybox, once fillStore has been called.
var store *image.Store

var fillStore = sync.OnceValues(func() (id string, err error) {
	dir, err := os.MkdirTemp("", "gantry-images")
	if err != nil {
		return "", err
	}
	if store, err = image.Open(dir); err != nil {
		return "", err
	}
	archive := os.Getenv(archiveEnv)
	if archive == "" {
		archive = filepath.Join(dir, "busybox.tar")
		if out, err := exec.Command("docker", "save", "-o", archive, busybox).CombinedOutput(); err != nil {
			return "", fmt.Errorf("docker save: %w: %s", err, out)
		}
	}
	ref := "file://" + archive
	got, err := store.Fetch(context.Background(), image.Fetch{Options: fetch.Options{Pull: "missing"}},
		[]fetch.Wanted{{Ref: ref}})
	if err != nil {
		return "", err
	}
	return got[0].ID, nil
})

func storedBusybox(t testing.TB) string {
	t.Helper()
	id, err := fillStore()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func removeStore() {
	if store != nil {
		store.Close()
		os.RemoveAll(store.Dir())
	}
}

// needOCI skips on hosts that cannot run containers without a daemon.
func needOCI(t *testing.T) {
	t.Helper()
	e, err := oci.Open(oci.Config{})
	if err == nil {
		_, err = e.Host(t.Context())
		e.Close()
	}
	if err != nil {
		t.Skipf("needs an OCI runtime: %v", err)
	}
}

// The same tests as with the Docker Engine, without it.
func TestWithoutADaemon(t *testing.T) {
	withoutDaemon = os.Getenv(archiveEnv) != ""
	engine(t) // for the image
	needOCI(t)
	withoutDaemon = true
	defer func() { withoutDaemon = false }()
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"contract", TestContract},
		{"a short task is measured", TestShortTaskIsMeasured},
		{"ends are classes", TestEndsAreClasses},
		{"grace", TestGraceLetsAProgramEnd},
		{"success although it was to stop", TestSuccessCountsAlthoughItWasToStop},
		{"a fork bomb is held", TestForkBombIsHeld},
		{"limits are read back", TestLimitsAreReadBack},
		{"a container is locked down", TestContainerIsLockedDown},
		{"suspended time", TestSuspendedTimeIsNotRunningTime},
		{"output up to a bound", TestOutputIsKeptUpToABound},
		{"disk", TestDiskIsLimited},
		{"files", TestFilesGoFromTaskToTask},
		{"hostile outputs", TestHostileOutputs},
		{"small quotas are frozen", TestTasksOfSmallQuotasAreFrozen},
		{"a checkpoint on another node", TestACheckpointedTaskGoesOnOnAnotherNode},
		{"a checkpoint outlives gantry", TestACheckpointOutlivesGantry},
		{"adoption", TestRunningContainerIsAdopted},
		{"harvest", TestContainerThatEndedMeanwhileIsHarvested},
		{"loss", TestWhatIsNotWantedIsRemovedAndWhatIsGoneIsLost},
		{"suspension outlives gantry", TestSuspensionOutlivesGantry},
		{"publishing after a crash", TestPublishingGoesOnAfterACrash},
		{"killed from outside", TestKilledFromOutside},
		{"a preemption outlives gantry", TestAPreemptionOutlivesGantry},
		{"frozen", TestAFrozenTaskUsesNoCPUAndKeepsItsMemory},
		{"clean", TestCleanLeavesHeldRunsAlone},
		{"a lost node", TestWhatWaitsOnALostNodeIsGivenUp},
		{"nothing is left", TestNothingIsLeft},
		{"what was begun", testWhatWasBegunIsRemoved},
	} {
		t.Run(c.name, c.test)
	}
}

// A gantry that is killed while it makes a container leaves what is not one yet.
func testWhatWasBegunIsRemoved(t *testing.T) {
	r := newRig(t, nil)
	begun := filepath.Join(r.config.Dir, "control", "oci", "4711.part")
	r.must(os.MkdirAll(filepath.Dir(begun), 0o700))
	r.must(os.WriteFile(begun, []byte(`{"name":`), 0o600))
	l := r.launched(r.sh("sleep 1"))
	s := r.successor(l)
	if _, err := os.Lstat(begun); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", begun, err)
	}
	s.wants(s.exit(l.Attempt), planner.OK)
}
