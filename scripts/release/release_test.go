// Package release_test builds releases and installs one. It takes minutes: make test-release runs it, go test ./...
// only what is quick.
package release_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const version, epoch = "1.2.3", "1700000000"

// slow skips unless GANTRY_RELEASE_TESTS is set.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("GANTRY_RELEASE_TESTS") == "" {
		t.Skip("builds releases for minutes: make test-release runs it")
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkout copies the sources into a new directory, as a tar archive of them would, as another version.
func checkout(t *testing.T, to string) string {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "../..", nil, "sh", "-c", "git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d "+
		"2>/dev/null | tar -cf - -T - | tar -xf - -C '"+to+"' && echo "+version+" >'"+to+"/VERSION'")
	return to
}

func TestRelease(t *testing.T) {
	slow(t)
	dist := t.TempDir()
	again := t.TempDir()
	env := []string{"SOURCE_DATE_EPOCH=" + epoch, "GOFLAGS="}
	here, there := checkout(t, filepath.Join(t.TempDir(), "a")),
		checkout(t, filepath.Join(t.TempDir(), "another/and/longer/directory"))
	run(t, here, env, "scripts/release/build", dist)

	t.Run("checksums", func(t *testing.T) { run(t, dist, nil, "sha256sum", "--check", "--strict", "SHA256SUMS") })
	t.Run("reproducible", func(t *testing.T) {
		run(t, there, append(env, "GOCACHE="+t.TempDir(), "HOME="+os.Getenv("HOME"), "TZ=Asia/Tokyo", "LANG=C.UTF-8"),
			"scripts/release/build", again)
		first, err1 := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		second, err2 := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
		if err1 != nil || err2 != nil || !bytes.Equal(first, second) {
			t.Errorf("two builds differ: %v %v\n%s\n%s", err1, err2, first, second)
		}
	})
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		name := fmt.Sprintf("gantry-%s-linux-%s", version, arch)
		t.Run(arch, func(t *testing.T) {
			dir := t.TempDir()
			run(t, dir, nil, "tar", "-xf", filepath.Join(dist, name+".tar.gz"))
			for _, program := range []string{"gantry", "gantry-task"} {
				f, err := elf.Open(filepath.Join(dir, name, program))
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range f.Progs {
					if p.Type == elf.PT_INTERP {
						t.Errorf("%s is not static", program)
					}
				}
				if f.Machine != machine {
					t.Errorf("%s is for %v", program, f.Machine)
				}
				f.Close()
			}
			for _, f := range []string{"LICENSE", "README.md", "SECURITY.md"} {
				if _, err := os.Stat(filepath.Join(dir, name, f)); err != nil {
					t.Error(err)
				}
			}
			modules(t, filepath.Join(dist, name+".modules.txt"))
			if arch == "arm64" {
				emulator, err := exec.LookPath("qemu-aarch64-static")
				if err != nil {
					t.Skip("not run: needs qemu-user-static")
				}
				if out := run(t, dir, nil, emulator, filepath.Join(name, "gantry"), "--version"); !strings.Contains(out,
					version) {
					t.Errorf("gantry --version says %q", out)
				}
			}
		})
	}
	t.Run("package", func(t *testing.T) { install(t, filepath.Join(dist, "gantry_"+version+"_amd64.deb")) })
}

// modules checks the list of them against go.mod.
func modules(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "go go1.") || !strings.Contains(string(text), "\nglibc 2.") {
		t.Fatalf("%s names neither Go nor the C library: %v\n%s", path, err, text)
	}
	for _, module := range []string{"github.com/mattn/go-sqlite3", "golang.org/x/sys"} {
		version := strings.TrimSpace(run(t, "../..", nil, "go", "list", "-m", "-f", "{{.Version}}", module))
		if !strings.Contains(string(text), module+"\t"+version+"\th1:") {
			t.Errorf("%s lacks %s %s", path, module, version)
		}
	}
}

// install puts the package into a fresh root of this distribution, and runs what it installed.
func install(t *testing.T, deb string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a root directory of the distribution is made")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("needs mmdebstrap (apt-get install mmdebstrap)")
	}
	root := filepath.Join(t.TempDir(), "root")
	run(t, ".", nil, "sh", "-c", ". /etc/os-release; mmdebstrap --quiet --mode=root --variant=minbase "+
		"$VERSION_CODENAME '"+root+"'")
	run(t, ".", nil, "cp", deb, filepath.Join(root, "gantry.deb"))
	run(t, ".", nil, "chroot", root, "dpkg", "--install", "/gantry.deb")
	if out := run(t, ".", nil, "chroot", root, "gantry", "--version"); !strings.Contains(out, version) {
		t.Errorf("gantry --version says %q", out)
	}
	out, err := exec.Command("chroot", root, "gantry", "doctor").CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 4 || !strings.Contains(string(out), "Docker Engine") {
		t.Errorf("gantry doctor, where there is no engine, ends with %d: %s", code, out)
	}
	run(t, ".", nil, "cp", "../../examples/montage/montage-25.dax", "../../examples/montage/cluster.yaml",
		filepath.Join(root, "tmp"))
	seen := run(t, ".", nil, "chroot", root, "gantry", "simulate", "--dir", "/tmp/runs",
		"--cluster", "/tmp/cluster.yaml", "/tmp/montage-25.dax")
	if !strings.Contains(seen, "25") {
		t.Errorf("gantry simulate says %s", seen)
	}
	run(t, ".", nil, "chroot", root, "dpkg", "--purge", "gantry")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/gantry")); err == nil {
		t.Error("gantry is still there after dpkg --purge")
	}
}

// database writes a database of vulnerabilities that knows one, in the YAML library that package trace calls; it
// returns its URL.
func database(t *testing.T, module, pkg, symbol string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"index/db.json": `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"` + module +
			`","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`,
		"index/vulns.json": `[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]`,
		"ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","summary":"made up",
			"modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
			"database_specific":{"url":"https://vuln.example/GO-2026-0001"},
			"affected":[{"package":{"name":"` + module + `","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
			"ecosystem_specific":{"imports":[{"path":"` + pkg + `","symbols":["` + symbol + `"]}]}}]}`,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

func TestVulnerabilitiesFailAndAnUnreachableDatabaseIsSaid(t *testing.T) {
	check := func(db string) (int, string) {
		cmd := exec.Command("../govulncheck.sh", "./planner/predict")
		cmd.Env = append(os.Environ(), "GOVULNDB="+db)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return err.(*exec.ExitError).ExitCode(), string(out)
		}
		return 0, string(out)
	}
	if code, out := check("http://127.0.0.1:1"); code != 0 || !strings.Contains(out, "NOT CHECKED") {
		t.Errorf("without a database it ends with %d: %s", code, out)
	}
	if code, out := check(database(t, "gonum.org/v1/gonum", "gonum.org/v1/gonum/nothing", "None")); code != 0 ||
		strings.Contains(out, "NOT CHECKED") {
		t.Errorf("without vulnerabilities it ends with %d: %s", code, out)
	}
	if code, out := check(database(t, "gonum.org/v1/gonum", "gonum.org/v1/gonum/mat", "NewDense")); code != 3 ||
		!strings.Contains(out, "GO-2026-0001") {
		t.Errorf("with a vulnerability it ends with %d: %s", code, out)
	}
}
