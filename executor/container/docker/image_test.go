package docker_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"gantry/executor/container"
	"gantry/executor/container/docker"
)

// shelf is an engine with nothing but images.
type shelf struct {
	refs    map[string]bool
	imports int
	answer  string // to an import
	down    error
}

func (s *shelf) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse,
	error) {
	if s.down != nil {
		return image.InspectResponse{}, s.down
	}
	if !s.refs[ref] {
		return image.InspectResponse{}, errdefs.ErrNotFound
	}
	return image.InspectResponse{ID: ref}, nil
}

func (s *shelf) ImageImport(_ context.Context, src image.ImportSource, ref string,
	_ image.ImportOptions) (io.ReadCloser, error) {
	io.Copy(io.Discard, src.Source)
	s.imports++
	if s.refs != nil && !strings.Contains(s.answer, "error") {
		s.refs[ref] = true
	}
	return io.NopCloser(strings.NewReader(s.answer)), nil
}

func TestTheEmptyImageIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := &shelf{refs: map[string]bool{}, answer: `{"status":"sha256:1"}`}
	for range 2 {
		if err := docker.EnsureEmptyImage(t.Context(), s); err != nil || s.imports != 1 {
			t.Errorf("%d imports, %v", s.imports, err)
		}
	}
	for says, s := range map[string]*shelf{"cannot connect": {down: errors.New("cannot connect")},
		"no space left":        {answer: `{"status":"x"}{"error":"no space left"}`},
		"answer of the engine": {answer: `{"sta`}} {
		if err := docker.EnsureEmptyImage(t.Context(), s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

func TestTaskBinaryIsFound(t *testing.T) {
	root := t.TempDir()
	deep, bin := filepath.Join(root, "a", "b"), filepath.Join(root, "bin", "gantry-task")
	must(t, errors.Join(os.MkdirAll(deep, 0o755), os.MkdirAll(filepath.Dir(bin), 0o755)))
	t.Setenv(docker.TaskBinaryEnv, "")
	t.Chdir(deep)
	if path, err := docker.FindTaskBinary(); err == nil {
		t.Skipf("a gantry-task lies above the temporary directory: %s", path)
	} else if !strings.Contains(err.Error(), "make build") {
		t.Error(err)
	}
	must(t, os.WriteFile(bin, nil, 0o755))
	if path, err := docker.FindTaskBinary(); err != nil || path != bin {
		t.Errorf("%s, %v", path, err)
	}
	t.Setenv(docker.TaskBinaryEnv, bin+"x")
	if _, err := docker.FindTaskBinary(); err == nil || !strings.Contains(err.Error(), docker.TaskBinaryEnv) {
		t.Errorf("a wrong %s: %v", docker.TaskBinaryEnv, err)
	}
}

// An emulator of another build is reported before it fails the tasks.
func TestTaskBinaryOfAnotherBuild(t *testing.T) {
	t.Parallel()
	own, err := taskBinary()
	must(t, err)
	other, err := exec.LookPath("echo")
	must(t, err)
	if err := docker.CheckTaskBinary(t.Context(), own); err != nil {
		t.Errorf("the one beside: %v", err)
	}
	if err := docker.CheckTaskBinary(t.Context(), other); !errors.Is(err, container.ErrUnusable) ||
		!strings.Contains(err.Error(), "make build") {
		t.Errorf("another: %v", err)
	}
	if err := docker.CheckTaskBinary(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err,
		container.ErrUnusable) {
		t.Errorf("none: %v", err)
	}
}
