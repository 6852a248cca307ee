package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
	must(t, begun.Make(true))
	for _, name := range []string{"end", "asked"} { // the launcher may be another user
		st, err := os.Stat(filepath.Join(string(begun), name))
		if err != nil || st.Size() != 0 || name == "end" && st.Mode().Perm() != 0o666 {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	filler, err := os.Create(filepath.Join(disk, "filler"))
	must(t, err)
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	end, err := os.OpenFile(filepath.Join(string(begun), "end"), os.O_WRONLY|os.O_APPEND, 0) // as the launcher does
	must(t, err)
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

// The first claim of an attempt holds for ever.
func TestAClaimIsMadeOnce(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "a"))
	must(t, d.Make(false))
	if by, _, err := d.Claimed(); by != Nobody || err != nil {
		t.Errorf("before it is claimed by %v (%v)", by, err)
	}
	must(t, d.Claim(Launcher, time.Unix(5, 7)))
	if err := d.Claim(Gantry, time.Now()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second claim: %v", err)
	}
	if by, at, err := d.Claimed(); by != Launcher || by.String() != "launcher" || at.UnixNano() != 5e9+7 || err != nil {
		t.Errorf("claimed by %v at %v (%v)", by, at, err)
	}
}

func TestFactsAndPlacesAreReadAsTheyWereWritten(t *testing.T) {
	d := Dir(t.TempDir())
	must(t, d.Make(true))
	if f, err := d.Facts(); err == nil {
		t.Errorf("facts that nobody kept: %+v", f)
	}
	for _, want := range []Facts{{1, 2, 3, 4}, {Staged: -5}} {
		must(t, d.Keep(want))
		if got, err := d.Facts(); err != nil || got != want {
			t.Errorf("%+v (%v), want %+v", got, err, want)
		}
	}
	for _, id := range []ID{{1, 2}, {3, 4}} {
		must(t, d.Expect("/in", id))
	}
	text, err := os.ReadFile(filepath.Join(string(d), "places"))
	if err != nil || string(text) != "1 2 /in\x003 4 /in\x00" {
		t.Errorf("places %q (%v)", text, err)
	}
}

// The launcher's account, a line cut off at its end left out.
func TestTheAccountOfAnEnd(t *testing.T) {
	for text, want := range map[string]End{
		"":                          {},
		"signal 15 1\nkilled 9 2\n": {Over: true, Code: 137, Signal: 9, Outside: 15, At: time.Unix(0, 2)},
		"exit 3 4\nsignal 15 5\n":   {Over: true, Code: 3, At: time.Unix(0, 4)},
		"refused 2 1\n":             {Refused: syscall.ENOENT},
		"again 0 0\nexit 0 1":       {Again: true},
		"dropped-1 5 0\nnonsense\ndropped-2 6 0\n": {Truncated: true, Dropped: 11},
		"full-tmp 7 0\nfull-shm 8 0\n":             {FullTmp: 7, FullShm: 8},
	} {
		d := Dir(t.TempDir())
		must(t, os.WriteFile(filepath.Join(string(d), "end"), []byte(text), 0o644))
		if got, err := d.End(); err != nil || got != want {
			t.Errorf("%q: %+v (%v), want %+v", text, got, err, want)
		}
	}
}

// must ends a test at an error that it does not look for.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
