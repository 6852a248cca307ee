//go:build linux

package oci

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// The volumes that an image declares are directories of the container, on disk, that begin with the image's files
// there.

const volumes = ".volumes" // after the file of the record, where the container says no other place

// makeVolumes makes the directories.
func (k *known) makeVolumes() error {
	if len(k.volumes) == 0 {
		return nil
	}
	if err := os.RemoveAll(k.spec.Volumes); err != nil {
		return err
	}
	if err := os.Mkdir(k.spec.Volumes, 0o700); err != nil {
		return fmt.Errorf("volumes of the image: %w", err)
	}
	for n := range k.volumes {
		if err := os.Mkdir(k.spec.Volume(n), 0o755); err != nil {
			return fmt.Errorf("volumes of the image: %w", err)
		}
	}
	return nil
}

// fillVolumes copies the image's files to its volumes; the layers are mounted at root.
func (k *known) fillVolumes(root string) error {
	if len(k.volumes) == 0 {
		return nil
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	for n, path := range k.volumes {
		from, err := unix.Openat2(top, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) { // the image has none
			continue
		}
		if err == nil {
			dir := os.NewFile(uintptr(from), path)
			err = copyAll(dir, k.spec.Volume(n))
			dir.Close()
		}
		if err != nil {
			return fmt.Errorf("volume %s of the image: %w", path, err)
		}
	}
	return nil
}

// copyAll has cp copy the contents of a directory to another one, which gets its attributes: owners, permissions,
// times, links, devices and extended attributes stay. Nobody else changes either. It follows no links.
func copyAll(from *os.File, to string) error {
	c := exec.Command("cp", "-a", "--", "/proc/self/fd/3/.", to)
	c.ExtraFiles = []*os.File{from}
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}
