package stage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoQuota means that the file system has no project quotas, or that this user may not set them.
var ErrNoQuota = errors.New("no project quotas")

// Of linux/fs.h and linux/quota.h.
const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR
	inherit       = 0x200      // FS_XFLAG_PROJINHERIT
	getQuota      = 0x800007<<8 | projectQuota
	setQuota      = 0x800008<<8 | projectQuota
	projectQuota  = 2
	blockLimits   = 1 // QIF_BLIMITS
)

// attributes is struct fsxattr.
type attributes struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

// quota is struct if_dqblk. Limits are in units of 1,024 bytes.
type quota struct {
	hard, soft, space, hardInodes, softInodes, inodes, time, inodeTime uint64
	valid                                                              uint32
	_                                                                  [4]byte
}

// Project is the number of the project of an attempt's work directory.
func Project(run string, attempt int64) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %d", run, attempt)
	return 1<<30 | h.Sum32()>>2 // far from those that people number
}

// SetQuota limits the bytes on disk of files made below dir from now on; 0 ends the limit. It returns ErrNoQuota if
// that cannot be.
func SetQuota(dir string, project uint32, bytes int64) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	q := quota{hard: uint64(bytes+1023) / 1024, soft: uint64(bytes+1023) / 1024, valid: blockLimits}
	if err := quotaControl(d, setQuota, project, &q); err != nil {
		return err
	}
	var a attributes
	if err := attributesOf(d, getAttributes, &a); err != nil {
		return err
	}
	if a.project, a.flags = project, a.flags|inherit; bytes == 0 {
		a.project, a.flags = 0, a.flags&^inherit
	}
	return attributesOf(d, setAttributes, &a)
}

// QuotaUsed returns the bytes on disk of the files made below dir under a quota.
func QuotaUsed(dir string, project uint32) (int64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	var q quota
	if err := quotaControl(d, getQuota, project, &q); err != nil {
		return 0, err
	}
	return int64(q.space), nil
}

func attributesOf(d *os.File, command uintptr, a *attributes) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, d.Fd(), command, uintptr(unsafe.Pointer(a)))
	return quotaError(e)
}

func quotaError(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNoQuota, e)
}
