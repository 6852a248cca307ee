package container_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/executor/container"
)

// Any user of the host may write where secrets lie, and take the place of their directory: root takes it back.
func TestTheDirectoryOfSecretsCannotBeOccupied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can remove what others have made")
	}
	s := container.SecretsOfSubmissions("occupied", t.TempDir())
	keep := func() string {
		t.Helper()
		mounts, _, err := s.Keep("key", &executor.User{UID: 12345, GID: 12345}, map[string][]byte{"token": []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		file, _, _ := strings.Cut(mounts[0], ":")
		return filepath.Dir(filepath.Dir(file))
	}
	top := keep()
	s.Drop("key") // as it was the last one, the directory goes
	for _, occupy := range []func() error{
		func() error { return errors.Join(os.Mkdir(top, 0o700), os.Mkdir(top+"/x", 0o700)) },
		func() error { return os.Symlink(t.TempDir(), top) },
	} {
		if err := errors.Join(occupy(), os.Lchown(top, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		keep()
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 1 || entries[0].Name() != "key" {
			t.Errorf("the directory has %v, %v", entries, err)
		}
		s.Drop("key")
	}
}
