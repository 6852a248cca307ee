package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gantry/cmd/api"
)

// Limits of tenants protect a server: what exceeds them is refused when it is handed in, and counts again after a
// restart. What has left makes room.
func TestAServerHoldsTenantsToTheirLimits(t *testing.T) {
	dir := t.TempDir()
	serve := []string{"--runtime", "null", "--tenant-limit", "lab=waiting:30,cores:2,disk:1GB", "--tenant-limit",
		"*=waiting:60,cores:0.5"}
	s := serveIn(t, dir, serve...)
	later := []string{"submit", "-q", "--dir", dir, "--release", "2h", montage, "--tenant"}
	expect(t, exitOK, []string{"1"}, append(later, "lab")...)
	over := "tenant lab may have 30 waiting tasks, has 25, and would have 25 more"
	expect(t, exitHost, []string{over}, append(later, "lab")...)
	expect(t, exitInput, []string{"needs 1 core, and the limit of tenant other is 0.5 cores"},
		append(later, "other")...)
	s.kill()
	serveIn(t, dir, serve...)
	expect(t, exitHost, []string{over}, append(later, "lab")...)
	expect(t, exitOK, []string{"lab", "waiting 30, cores 2, disk 1 GB"}, "queue", "--tenants", "--dir", dir)
	expect(t, exitOK, []string{"1: "}, "cancel", "--dir", dir, "1")
	expect(t, exitOK, []string{"2"}, append(later, "lab")...)
	var q api.Tenants
	if err := json.Unmarshal([]byte(expect(t, exitOK, nil, "queue", "--tenants", "--json", "--dir", dir)),
		&q); err != nil {
		t.Fatal(err)
	}
	if len(q.Tenants) != 1 || q.Tenants[0].Name != "lab" || q.Tenants[0].Waiting != 25 ||
		q.Tenants[0].MaxWaiting != 30 {
		t.Errorf("the tenants are %+v", q.Tenants)
	}
	for _, bad := range []string{"lab", "lab=waiting:0", "lab=cores:x", "lab=time:3"} {
		expect(t, exitUsage, []string{"--tenant-limit"}, "serve", "--dir", t.TempDir(), "--runtime", "null",
			"--tenant-limit", bad)
	}
}

// What a tenant's files take of the disk is measured when it hands something in, each file once, and what was removed
// makes room. Other tenants have their own.
func TestAServerBoundsTheDiskOfTenants(t *testing.T) {
	beside(t)
	needsCheap(t)
	c := cliTest{t, t.TempDir()}
	dir := filepath.Join(c.dir, "runs")
	flow := c.write("Makeflow", "big:\n\tdd if=/dev/zero of=big bs=1M count=6\n")
	s := serveIn(t, dir, "--runtime", "oci", "--name", "lab", "--image", "gantry/busybox", "--tenant-limit",
		"a=disk:10MB", "--tenant-limit", "*=disk:1GB")
	for _, id := range []string{"1", "2"} { // results and nodes have one file under two names: 6 MiB and then 12
		if got := s.submit("--tenant", "a", flow); got != id {
			t.Fatalf("number %q, want %s", got, id)
		}
		expect(t, exitOK, []string{"1 of 1 task done"}, "wait", "--dir", dir, id)
	}
	expect(t, exitHost, []string{"the files of tenant a take 12.6 MB of the disk, and its limit is 10 MB"}, "submit",
		"--dir", dir, "--tenant", "a", flow)
	s.submit("--tenant", "b", flow)
	gone, err := filepath.Glob(filepath.Join(dir, "lab", "nodes", "*", "*-1"))
	if err != nil || len(gone) != 1 {
		t.Fatalf("files of the first submission on nodes: %v (%v)", gone, err)
	}
	results, err := filepath.Glob(filepath.Join(dir, "lab", "results", "*-1"))
	if err != nil || len(results) != 1 {
		t.Fatalf("results of the first submission: %v (%v)", results, err)
	}
	for _, path := range slices.Concat(gone, results) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) { // it is measured now and then
		code, _, said := invoke(t, "submit", "-q", "--dir", dir, "--tenant", "a", flow)
		if code == exitOK {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("what was removed makes no room:\n%s", said)
		}
	}
}
