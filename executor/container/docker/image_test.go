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
	"gantry/executor/container/fetch"
	"gantry/planner"
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

// copied makes a task emulator of other bytes.
func copied(t *testing.T, more string) string {
	t.Helper()
	binary, err := taskBinary()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "gantry-task")
	if err := os.WriteFile(path, append(program, more...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTaskImageIsBuiltOncePerBinary(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), &shelf{refs: map[string]bool{}, answer: `{"status":"sha256:1"}`}
	one, two := copied(t, "one"), copied(t, "two")
	first, err := docker.EnsureTaskImage(ctx, s, one)
	if err != nil {
		t.Fatal(err)
	}
	again, err := docker.EnsureTaskImage(ctx, s, one)
	if err != nil || again != first || s.imports != 1 {
		t.Errorf("second time: %s after %s, %d imports, %v", again, first, s.imports, err)
	}
	other, err := docker.EnsureTaskImage(ctx, s, two)
	if err != nil || other == first || s.imports != 2 {
		t.Errorf("another binary: %s after %s, %d imports, %v", other, first, s.imports, err)
	}
	if !strings.HasPrefix(first, "gantry/task:") || len(first) != len("gantry/task:")+12 {
		t.Errorf("reference %s", first)
	}
}

func TestTaskImageErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := copied(t, "")
	shared, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, binary string
		engine       *shelf
		says         string
	}{
		{"no binary", "/nonexistent", &shelf{}, "no such file"},
		{"a script", script, &shelf{}, "not a Linux program"},
		{"a program with shared libraries", shared, &shelf{}, "make build"},
		{"the engine is down", program, &shelf{down: errors.New("cannot connect")}, "cannot connect"},
		{"the engine has no space", program, &shelf{answer: `{"status":"x"}{"error":"no space left"}`},
			"no space left"},
		{"the engine answers nonsense", program, &shelf{answer: `{"sta`}, "answer of the engine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := docker.EnsureTaskImage(context.Background(), c.engine, c.binary); err == nil ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

func TestMissingImageErrorTellsWhatToDo(t *testing.T) {
	t.Parallel()
	s := &shelf{refs: map[string]bool{"there": true}}
	if err := docker.CheckImage(context.Background(), s, "there"); err != nil {
		t.Error(err)
	}
	err := docker.CheckImage(context.Background(), s, "absent:1")
	if !errors.Is(err, fetch.ErrNoImage) || !strings.Contains(err.Error(), "docker pull absent:1") {
		t.Error(err)
	}
	if err := docker.CheckImage(context.Background(), s, ""); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Error(err)
	}
}

func TestTaskBinaryIsFound(t *testing.T) {
	root := t.TempDir()
	deep, bin := filepath.Join(root, "a", "b"), filepath.Join(root, "bin", "gantry-task")
	if err := errors.Join(os.MkdirAll(deep, 0o755), os.MkdirAll(filepath.Dir(bin), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(docker.TaskBinaryEnv, "")
	t.Chdir(deep)
	if path, err := docker.FindTaskBinary(); err == nil {
		t.Skipf("a gantry-task lies above the temporary directory: %s", path)
	} else if !strings.Contains(err.Error(), "make build") {
		t.Error(err)
	}
	if err := os.WriteFile(bin, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := docker.FindTaskBinary(); err != nil || path != bin {
		t.Errorf("%s, %v", path, err)
	}
	t.Setenv(docker.TaskBinaryEnv, bin+"x")
	if _, err := docker.FindTaskBinary(); err == nil || !strings.Contains(err.Error(), docker.TaskBinaryEnv) {
		t.Errorf("a wrong %s: %v", docker.TaskBinaryEnv, err)
	}
}

func TestRemovedTaskImageIsBuiltAgain(t *testing.T) {
	t.Parallel()
	cfg := settings(t, nil)
	cfg.TaskBinary = copied(t, cfg.Run) // which no other test uses
	cli, err := docker.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	ref, err := docker.EnsureTaskImage(t.Context(), cli, cfg.TaskBinary)
	if err != nil {
		t.Fatal(err)
	}
	remove := func() error {
		_, err := cli.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true})
		return err
	}
	r := open(t, "", cfg)
	for range 2 {
		r.wants(r.exit(r.launch(r.emulated(), nil)), planner.OK)
		r.must(remove())
	}
}

// An emulator of another build is reported before it fails the tasks.
func TestTaskBinaryOfAnotherBuild(t *testing.T) {
	t.Parallel()
	own, err := taskBinary()
	if err != nil {
		t.Fatal(err)
	}
	other, err := exec.LookPath("echo")
	if err != nil {
		t.Fatal(err)
	}
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
