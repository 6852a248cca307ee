package cmd

import (
	"encoding/json"
	"testing"

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
