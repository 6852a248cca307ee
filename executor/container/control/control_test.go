package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// On a disk that is full by now the accounts of an attempt that has begun are kept, and no other begins.
func TestAFullDiskHidesNoEnd(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs to mount a small file system, as root: %v", err)
	}
	defer unix.Unmount(disk, unix.MNT_DETACH)
	begun, next := Dir(filepath.Join(disk, "a1")), Dir(filepath.Join(disk, "a2"))
	if err := begun.Make(true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"end", "asked"} { // the launcher may be another user
		st, err := os.Stat(filepath.Join(string(begun), name))
		if err != nil || st.Size() != 0 || name == "end" && st.Mode().Perm() != 0o666 {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	j, err := begun.Journal()
	if err != nil {
		t.Fatal(err)
	}
	j.Signalled(syscall.SIGTERM)
	j.Ended(syscall.WaitStatus(7 << 8))
	if end, err := begun.End(); err != nil || !end.Over || end.Code != 7 || end.Outside != syscall.SIGTERM {
		t.Errorf("%+v, %v", end, err)
	}
	if err := begun.Ask(3, Remove); err != nil {
		t.Error(err)
	}
	if why, removed, err := begun.Asked(); why != 3 || !removed || err != nil {
		t.Errorf("%d, %v, %v", why, removed, err)
	}
	var where *fs.PathError
	if err := next.Make(false); !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &where) {
		t.Errorf("an attempt whose end cannot be noted: %v", err)
	}
}
