package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DeviceOf finds the disk on which a directory lies; a partition's is the whole disk, since only that can be limited.
// There is none for file systems without a block device of their own (overlay, tmpfs, network file systems, btrfs), nor
// for one that has no device node here, as in a container, since Docker wants that: then ok is false.
func DeviceOf(dir string) (d Device, ok bool, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Device{}, false, fmt.Errorf("block device of %s: %w", dir, err)
	}
	if d, ok = DeviceAt("/sys/dev/block", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))); !ok {
		return Device{}, false, nil
	}
	if unix.Stat(d.Path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Device{}, false, nil
	}
	return d, true, nil
}

// DeviceAt is DeviceOf for a device number, with sys in the place of /sys/dev/block.
func DeviceAt(sys string, major, minor uint32) (Device, bool) {
	dir, err := filepath.EvalSymlinks(filepath.Join(sys, fmt.Sprintf("%d:%d", major, minor)))
	if major == 0 || err != nil {
		return Device{}, false
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return Device{}, false
	}
	ma, mi, _ := strings.Cut(string(bytes.TrimSpace(b)), ":")
	a, err1 := strconv.ParseUint(ma, 10, 32)
	i, err2 := strconv.ParseUint(mi, 10, 32)
	if err1 != nil || err2 != nil {
		return Device{}, false
	}
	name := filepath.Base(dir)
	if b, err := os.ReadFile(filepath.Join(dir, "uevent")); err == nil {
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
				name = v
			}
		}
	}
	return Device{uint32(a), uint32(i), "/dev/" + name}, true
}
