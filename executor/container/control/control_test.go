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
	end, err := os.OpenFile(filepath.Join(string(begun), "end"), os.O_WRONLY|os.O_APPEND, 0) // as the launcher does
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if _, err := end.WriteString("signal 15 1\nexit 7 2\n"); err != nil {
		t.Fatal(err)
	}
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
