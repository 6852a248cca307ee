package session_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gantry/cmd/internal/session"
	"gantry/executor/container/oci/image"
)

// Images stay as long as a run or an allocation may need them.
func TestImagesThatAreNeededStay(t *testing.T) {
	store := filepath.Join(t.TempDir(), "images")
	t.Setenv(image.DirEnv, store)
	l := newLab(t, "sim", "{name: n, cores: 4}", map[string]string{"f.dax": forked})
	s, err := image.Open(store)
	l.must(err)
	defer s.Close()
	if removed, freed, err := session.RemoveStored(t.Context()); len(removed) > 0 || freed != 0 || err != nil {
		t.Errorf("%v, %d, %v", removed, freed, err)
	}
	l.run("over", "f.dax", nil)
	for _, name := range []string{"over", "none"} {
		l.must(os.MkdirAll(filepath.Join(l.with.Home, name), 0o755))
		if session.Unfinished(t.Context(), filepath.Join(l.with.Home, name)) {
			t.Errorf("run %s is not over", name)
		}
	}
	const config = `{"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}`
	id, use := fmt.Sprintf("%x", sha256.Sum256([]byte(config))), filepath.Join(store, "uses", "1")
	l.must(os.WriteFile(filepath.Join(store, "images", id+".json"), []byte(config), 0o600))
	l.must(os.WriteFile(use, []byte(`{"Dir": "slurm-allocation:1", "Images": ["sha256:`+id+`"]}`), 0o600))
	fake, says := fakeSlurm(t)
	says("squeue", slurmJob(os.Getuid(), "RUNNING"), "", 0)
	if removed, _, err := session.RemoveStored(t.Context()); len(removed) > 0 || err != nil {
		t.Errorf("in the allocation %v was removed, %v", removed, err)
	}
	// Others may bring images while Slurm is asked: it answers once somebody had the lock of the store.
	l.must(os.Remove(filepath.Join(fake, "squeue")))
	l.must(os.WriteFile(filepath.Join(fake, "squeue"), []byte("#!/bin/sh\n: >$FAKE_SLURM/asked\nuntil test -e "+
		"$FAKE_SLURM/had; do sleep 0.01; done\necho '"+slurmJob(os.Getuid(), "TIMEOUT")+"'\n"), 0o755))
	had := make(chan error, 1)
	go func() {
		for _, err := os.Stat(filepath.Join(fake, "asked")); err != nil; time.Sleep(10 * time.Millisecond) {
			_, err = os.Stat(filepath.Join(fake, "asked"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.Try(ctx)
		had <- errors.Join(err, os.WriteFile(filepath.Join(fake, "had"), nil, 0o644))
	}()
	removed, _, err := session.RemoveStored(t.Context())
	if _, noted := os.Stat(use); len(removed) != 1 || err != nil || noted == nil {
		t.Errorf("after the allocation %v was removed, %v; its use: %v", removed, err, noted)
	}
	l.must(<-had)
}
