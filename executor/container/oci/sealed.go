//go:build linux

package oci

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// seals are those by which crun and runc know that a program cannot be changed.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// sealed is a copy of a program in memory that nobody can change any more. An OCI runtime that finds itself to be one
// begins at once; else it makes such a copy first and starts again from there, so that no container can overwrite the
// program of the host. Gantry makes it once, not for each container: it is a fifth of the cost of crun.
//
// A script has no such copy, since its interpreter could not open it; nor has any program where the kernel runs none
// from memory (vm.memfd_noexec).
func sealed(program string) (*os.File, error) {
	from, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	start := make([]byte, 4)
	if _, err := io.ReadFull(from, start); err != nil || !bytes.Equal(start, []byte("\x7fELF")) {
		return nil, fmt.Errorf("%s is no ELF file", program)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("oci-runtime", flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3, where all can be run
		fd, err = unix.MemfdCreate("oci-runtime", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memory for a copy of %s: %w", program, err)
	}
	// Far from the numbers that the descriptors of children have.
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 100)
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("memory for a copy of %s: %w", program, err)
	}
	to := os.NewFile(uintptr(high), "oci-runtime")
	_, err = io.Copy(to, io.MultiReader(bytes.NewReader(start), from))
	if err == nil {
		err = unix.Fchmod(high, 0o555)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(high), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		to.Close()
		return nil, fmt.Errorf("copy %s to memory: %w", program, err)
	}
	return to, nil
}
