package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"gantry/sqlite"
)

func TestHostModelsAreKeptAndFoundDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db, ctx := open(t, path, sqlite.Durable), t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, runtime := range []string{"docker", "other", "docker"} {
		m := &sqlite.HostModel{Runtime: runtime, Host: "h", Kernel: "6.1", Engine: "27.1", Cores: 4, Gantry: "v1",
			Created: at, Busy: 0.25, Model: []byte(`{"a":1}`)}
		must(t, db.KeepHostModel(ctx, m))
	}
	found, err := db.HostModels(ctx, "docker")
	if err != nil || len(found) != 2 || found[0].ID != 3 || found[1].ID != 1 || !found[0].Created.Equal(at) ||
		found[0].Busy != 0.25 || string(found[0].Model) != `{"a":1}` {
		t.Fatalf("%+v, %v", found, err)
	}
	if found, err := db.HostModels(ctx, ""); err != nil || len(found) != 3 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := rawDB(t, path).Exec("UPDATE host_models SET created_wall = 'yesterday' WHERE id = 3"); err != nil {
		t.Fatal(err)
	}
	found, err = db.HostModels(ctx, "docker")
	if err != nil || len(found) != 2 || found[0].Damaged == nil || found[1].Damaged != nil {
		t.Errorf("%+v, %v", found, err)
	}
}
