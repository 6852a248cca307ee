package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/executor/emulate"
)

const (
	// EmptyImage is the image of emulated tasks: their program is mounted.
	EmptyImage = fetch.Own + "empty:1"
	// TaskBinaryEnv is the environment variable that names the emulator's binary.
	TaskBinaryEnv = "GANTRY_TASK"
)

// Images is the part of a Docker client that this file needs.
type Images interface {
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageImport(ctx context.Context, source image.ImportSource, ref string, options image.ImportOptions) (io.ReadCloser,
		error)
}

// noImage says that the engine does not have an image.
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

// EnsureEmptyImage makes the empty image, unless the engine has it.
func EnsureEmptyImage(ctx context.Context, cli Images) error {
	_, err := cli.ImageInspect(ctx, EmptyImage)
	if err == nil {
		return nil
	} else if !errdefs.IsNotFound(err) {
		return fmt.Errorf("look for image %s: %w", EmptyImage, err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}), w.Close())
	if err != nil {
		return fmt.Errorf("build image %s: %w", EmptyImage, err)
	}
	answer, err := cli.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, EmptyImage,
		image.ImportOptions{Message: "gantry's image of emulated tasks"})
	if err == nil {
		err = listen(answer, func(*message) {})
	}
	if err != nil {
		return fmt.Errorf("build image %s: %w", EmptyImage, err)
	}
	return nil
}
