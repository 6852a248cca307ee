package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/emulate"
)

const (
	// TaskRepository is the repository of the task emulator's images; the tag names the build of the emulator in
	// it.
	TaskRepository = "gantry/task"
	// TaskBinaryEnv is the environment variable that names the emulator's binary.
	TaskBinaryEnv = "GANTRY_TASK"
	// ImageLabel marks the images that gantry builds.
	ImageLabel = "gantry.image"
)

// Images is the part of a Docker client that this file needs.
type Images interface {
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageImport(ctx context.Context, source image.ImportSource, ref string, options image.ImportOptions) (io.ReadCloser,
		error)
}

// CheckImage returns fetch.ErrNoImage, with advice, if the engine does not have the image. Nothing is pulled.
func CheckImage(ctx context.Context, cli Images, ref string) error {
	if ref == "" {
		return errors.New("no image is named: name one with --image, or in the workload file or trace")
	}
	_, err := cli.ImageInspect(ctx, ref)
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotFound(err):
		return noImage(ref)
	default:
		return fmt.Errorf("look for image %s: %w", ref, err)
	}
}

func noImage(ref string) error {
	remedy := "fetch it with \"docker pull " + ref + "\""
	if strings.HasPrefix(ref, fetch.Own) {
		remedy = "names that begin with " + fetch.Own + " are those of images built here, never pulled: " +
			fetch.Build(ref)
	}
	return fetch.NoImage(ref, fetch.ErrNoImage.Error(), remedy)
}

// FindTaskBinary returns the path of the task emulator: $GANTRY_TASK, else gantry-task beside the running program, else
// bin/gantry-task in the working directory or one of its parents.
func FindTaskBinary() (string, error) {
	if path := os.Getenv(TaskBinaryEnv); path != "" {
		if !isProgram(path) {
			return "", fmt.Errorf("task emulator: %s=%s is not a program", TaskBinaryEnv, path)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), "gantry-task"); isProgram(path) {
			return path, nil
		}
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			if path := filepath.Join(dir, "bin", "gantry-task"); isProgram(path) {
				return path, nil
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return "", fmt.Errorf("task emulator gantry-task is neither beside gantry nor in bin/: install gantry "+
		"whole (make build in its sources), or set %s to its path",
		TaskBinaryEnv)
}

// CheckTaskBinary makes sure that the emulator at path was built for this gantry.
func CheckTaskBinary(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, "protocol").Output()
	if got := strings.TrimSpace(string(said)); err == nil && got != emulate.Protocol ||
		errors.As(err, new(*exec.ExitError)) {
		return fmt.Errorf("%w: task emulator %s is of another build than this gantry, and would fail every task: "+
			"install both of one build (make build), or set %s to the right one",
			container.ErrUnusable, path, TaskBinaryEnv)
	}
	if err != nil {
		return fmt.Errorf("%w: task emulator: %w", container.ErrUnusable, err)
	}
	return nil
}

func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// EnsureTaskImage returns the image that holds the task emulator and nothing else, and builds it if the engine does not
// have it. Equal binaries give the same reference.
func EnsureTaskImage(ctx context.Context, cli Images, binary string) (ref string, err error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("task emulator: %w", err)
	}
	if err := checkStatic(program); err != nil {
		return "", fmt.Errorf("task emulator %s: %w", binary, err)
	}
	ref = taskRef(program)
	if err := CheckImage(ctx, cli, ref); !errors.Is(err, fetch.ErrNoImage) {
		return ref, err
	}
	layer, err := taskLayer(program)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	answer, err := cli.ImageImport(ctx, image.ImportSource{Source: layer, SourceName: "-"}, ref, image.ImportOptions{
		Message: "gantry's task emulator",
		Changes: []string{`CMD ["` + container.TaskProgram + `"]`, "LABEL " + ImageLabel + "=task"},
	})
	if err != nil {
		return "", fmt.Errorf("build image %s: %w", ref, err)
	}
	defer answer.Close()
	// The outcome comes at the end of a stream of messages, of which each may be an error.
	for messages := json.NewDecoder(answer); ; {
		var m struct {
			Error string `json:"error"`
		}
		switch err := messages.Decode(&m); {
		case err == io.EOF:
			return ref, CheckImage(ctx, cli, ref)
		case err != nil:
			return "", fmt.Errorf("build image %s: answer of the engine: %w", ref, err)
		case m.Error != "":
			return "", fmt.Errorf("build image %s: %s", ref, m.Error)
		}
	}
}

// taskRef names the image of a build of the emulator.
func taskRef(program []byte) string {
	sum := sha256.Sum256(program)
	return TaskRepository + ":" + hex.EncodeToString(sum[:])[:12]
}

// RemoveTaskImages removes the images of all builds of the task emulator except that of this gantry, and returns their
// names. An image that a container uses stays. A run of another checkout that has no container just now loses its
// image, and fails its next start.
func RemoveTaskImages(ctx context.Context, host string) (removed []string, err error) {
	cli, err := Connect(ctx, host)
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	binary, _ := FindTaskBinary() // without one every image is old
	keep := ""
	if program, err := os.ReadFile(binary); err == nil {
		keep = taskRef(program)
	}
	all, err := cli.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("reference",
		TaskRepository+":*"))})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, i := range all {
		for _, ref := range i.RepoTags {
			if ref == keep || !strings.HasPrefix(ref, TaskRepository+":") {
				continue
			}
			switch _, err := cli.ImageRemove(ctx, ref, image.RemoveOptions{}); {
			case err == nil:
				removed = append(removed, ref)
			case !errdefs.IsConflict(err) && !errdefs.IsNotFound(err):
				return removed, fmt.Errorf("remove image %s: %w", ref, err)
			}
		}
	}
	return removed, nil
}

// checkStatic refuses a program that the empty image cannot run.
func checkStatic(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("needs shared libraries, which its image does not have: take the one that is " +
				"installed with gantry (make build)")
		}
	}
	return nil
}

// taskLayer is the root file system of the image, as a tar archive.
func taskLayer(program []byte) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: container.TaskProgram[1:], Mode: 0o755,
			Size: int64(len(program))}),
	)
	if err == nil {
		_, err = w.Write(program)
	}
	return &b, errors.Join(err, w.Close())
}

// TaskImage returns the image of the emulator, which is built if it is not there.
func (e *Engine) TaskImage(ctx context.Context) (ref string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.image == "" {
		e.image, err = EnsureTaskImage(ctx, e.cli, e.taskBinary)
	}
	return e.image, err
}
