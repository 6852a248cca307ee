package cmd

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/sqlite"
	"gantry/trace"
)

// The users of these tests have no accounts. Members are in labGroup, which is the group of the server.
const (
	labGroup   = 47000
	otherGroup = 47010 // that a member is in, too
	alice      = 47001
	bob        = 47002
	stranger   = 47003 // not in the group
)

// lab is a gantry directory with a server of a group, for which it takes root.
type lab struct {
	*served
	self string // gantry, where all may run it
	args []string
}

// newLab starts a server of a group.
func newLab(t *testing.T, args ...string) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a server of several users needs root")
	}
	top, err := os.MkdirTemp("/tmp", "lab") // TMPDIR may be another user's, and a group's server is below root's alone
	must(t, err)
	must(t, os.Chmod(top, 0o755))
	t.Cleanup(func() { os.RemoveAll(top) })
	l := &lab{self: filepath.Join(top, "gantry"),
		args: append([]string{"--group", "47000", "--name", "lab"}, args...)}
	if os.Link(os.Args[0], l.self) != nil { // another file system
		text, err := os.ReadFile(os.Args[0])
		must(t, err)
		must(t, os.WriteFile(l.self, text, 0o755))
	}
	l.served = serveIn(t, filepath.Join(top, "runs"), l.args...)
	return l
}

// home makes a directory that one user alone may enter.
func (l *lab) home(uid int) string {
	l.t.Helper()
	dir := filepath.Join(filepath.Dir(l.dir), "home-"+string(rune('0'+uid%10)))
	must(l.t, os.MkdirAll(dir, 0o700))
	must(l.t, os.Chown(dir, uid, uid))
	return dir
}

// write writes a file of a user's into a directory.
func (l *lab) write(uid int, path, text string) string {
	l.t.Helper()
	must(l.t, os.WriteFile(path, []byte(text), 0o600))
	must(l.t, os.Chown(path, uid, uid))
	return path
}

// as runs a command of gantry as a user, in that user's home, and returns its exit code and what it says.
func (l *lab) as(uid int, args ...string) (code int, out string) {
	l.t.Helper()
	return l.command(uid, append([]string{args[0], "--dir", l.dir}, args[1:]...)...)
}

func (l *lab) command(uid int, args ...string) (code int, out string) {
	l.t.Helper()
	cmd := exec.Command(l.self, args...)
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp", "GANTRY_DIR="+l.dir)
	cmd.Dir = l.home(uid)
	groups := []uint32{labGroup}
	if uid == stranger {
		groups = nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid),
		Groups: groups}}
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		l.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// wants runs a command of a user that has to end with a code and to say something.
func (l *lab) wants(uid, code int, says []string, args ...string) string {
	l.t.Helper()
	got, out := l.as(uid, args...)
	if got != code {
		l.t.Fatalf("user %d: gantry %s ended with %d, want %d:\n%s", uid, strings.Join(args, " "), got, code, out)
	}
	for _, s := range says {
		if !strings.Contains(out, s) {
			l.t.Fatalf("user %d: gantry %s does not say %q:\n%s", uid, strings.Join(args, " "), s, out)
		}
	}
	return out
}

// belongs wants a file or directory that is a user's and that others may not read.
func (l *lab) belongs(uid int, path string) {
	l.t.Helper()
	info, err := os.Stat(path)
	must(l.t, err)
	if sys := info.Sys().(*syscall.Stat_t); int(sys.Uid) != uid {
		l.t.Errorf("%s is of user %d, want %d", path, sys.Uid, uid)
	}
}

// Each member sees and ends work of its own alone, and nobody else may ask at all.
func TestMembersOfAGroupShareAServer(t *testing.T) {
	l := newLab(t, "--runtime", "null")
	for path, mode := range map[string]os.FileMode{"": 0o750 | os.ModeDir, api.SocketName: 0o660 | os.ModeSocket,
		"gantry.sqlite": 0o600, "gantry.sqlite-wal": 0o600, "gantry.sqlite-shm": 0o600} {
		if info, err := os.Stat(filepath.Join(l.dir, path)); err != nil || info.Mode() != mode {
			t.Errorf("%q has mode %v (%v), want %v", path, info.Mode(), err, mode)
		}
	}
	flow := filepath.Join(filepath.Dir(l.dir), "montage.dax")
	text, err := os.ReadFile(montage)
	must(t, err)
	must(t, os.WriteFile(flow, text, 0o644))
	l.wants(alice, exitOK, []string{"1: hers-1"}, "submit", "--name", "hers", "--no-prediction", flow)
	l.wants(bob, exitOK, []string{"2: his-2"}, "submit", "--name", "his", "--no-prediction", flow)
	l.wants(alice, exitOK, []string{"25 of 25"}, "wait", "1")
	l.wants(bob, exitOK, []string{"25 of 25"}, "wait", "2")

	var q api.Queue
	out := l.wants(alice, exitOK, nil, "queue", "--all", "--json")
	if err := json.Unmarshal([]byte(out), &q); err != nil || len(q.Submissions) != 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	if hers := q.Submissions[0]; hers.UID != alice || hers.Tenant != "47001" || hers.Done != 25 || hers.Veiled {
		t.Errorf("her own is %+v", hers)
	}
	his := q.Submissions[1]
	if want := (api.Status{ID: 2, Run: "lab", Name: "his-2", Kind: "workflow", UID: bob, State: "done", Over: true,
		Veiled: true}); his.Tasks != 0 || his.Started != nil || his.Tenant != "" || his.Name != want.Name ||
		his.UID != bob || !his.Veiled || !his.Submitted.IsZero() {
		t.Errorf("she sees of his: %+v, want %+v", his, want)
	}
	for _, args := range [][]string{{"wait", "2"}, {"cancel", "2"}, {"show", "2"}, {"explain", "2", "ID00000"},
		{"export", "--format", "csv", "2"}, {"report", "2"}} {
		l.wants(alice, exitHost, []string{"another user"}, args...)
	}
	if code, out := l.command(alice, "sbatch", "--container", "i", "-d", "afterok:2", "--wrap", "true"); code != 1 ||
		!strings.Contains(out, "submission 2 is of another user") {
		t.Errorf("a job after another user's ended with %d: %s", code, out)
	}
	l.wants(alice, exitHost, []string{"as tenant 47001 here, and not as 47002"}, "submit", "--tenant", "47002", flow)
	l.wants(alice, exitUsage, []string{"one of your submissions"}, "show")
	for _, args := range [][]string{{"drain"}, {"node", "drain", "host"}} {
		l.wants(bob, exitHost, []string{"only root"}, args...)
	}
	l.wants(alice, exitUsage, []string{"of a whole run"}, "report", "1")
	for uid, id := range map[int]string{alice: "1", bob: "2"} { // the second one's tasks do not begin with number 0
		data := dataOf(t, l.wants(uid, exitOK, nil, "report", "--html", "-", id))
		own, other := "hers-1", "his-2"
		if uid == bob {
			own, other = other, own
		}
		if strings.Contains(data, other) || !strings.Contains(data, own) || !strings.Contains(data, "ID00024") {
			t.Errorf("the page of submission %s has\n%s", id, data)
		}
	}
	// Of the tenants she sees her own, and what the others have together.
	out = l.wants(alice, exitOK, []string{"47001", "(others)"}, "queue", "--tenants")
	if strings.Contains(out, "47002") {
		t.Errorf("she sees his figures:\n%s", out)
	}
	var tenants api.Tenants
	out = l.wants(alice, exitOK, nil, "queue", "--tenants", "--json")
	if err := json.Unmarshal([]byte(out), &tenants); err != nil || len(tenants.Tenants) != 2 ||
		tenants.Tenants[0].Workflows != 1 || tenants.Tenants[1] != (api.Tenant{Others: true}) {
		t.Errorf("%v\n%s", err, out)
	}
	expect(t, exitOK, []string{"47001", "47002"}, "queue", "--tenants", "--dir", l.dir)
	l.wants(alice, exitHost, []string{"another user"}, "report", "--html", "-", "2")
	l.wants(alice, exitHost, []string{"another user"}, "watch", "2")
	l.wants(alice, exitInput, []string{"submission 1 has ended"}, "watch", "1")
	// What it says that she can do she can: the run is not hers to look at, nor is its log.
	out = l.wants(alice, exitOK, []string{"25 tasks of 25 done", "hers-1", "gantry show --tasks 1\n"}, "show", "1")
	if strings.Contains(out, "his") || strings.Contains(out, "log: ") {
		t.Errorf("her log has his work, or a place:\n%s", out)
	}
	l.wants(alice, exitOK, []string{"hers-1/ID00024"}, "show", "--tasks", "1")
	l.wants(alice, exitOK, []string{"hers-1/ID00000"}, "explain", "1", "ID00000")
	begun := time.Now()
	l.wants(stranger, exitHost, []string{"you may not use the server"}, "queue")
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("a stranger heard so after %v", took)
	}
	expect(t, exitOK, []string{"hers-1", "his-2", "25"}, "queue", "--all", "--dir", l.dir)
	expect(t, exitOK, nil, "cancel", "--dir", l.dir, "2")
}

// The tenant is the user, or what root said when the server was started.
func TestRootSaysForWhichTenantsUsersCount(t *testing.T) {
	l := newLab(t, "--runtime", "null", "--tenant", "47001=astronomy", "--tenant", "47002=*")
	flow := filepath.Join(filepath.Dir(l.dir), "montage.dax")
	must(t, os.WriteFile(flow, []byte(read(t, montage)), 0o644))
	for _, c := range []struct {
		uid    int
		names  string
		tenant string // "": it is refused
	}{{alice, "", "astronomy"}, {alice, "astronomy", "astronomy"}, {alice, "47001", ""}, {bob, "", "47002"},
		{bob, "anything", "anything"}} {
		args := []string{"submit", "--quiet", "--no-prediction", flow}
		if c.names != "" {
			args = append(args, "--tenant", c.names)
		}
		if c.tenant == "" {
			l.wants(c.uid, exitHost, []string{"you hand in as tenant astronomy here"}, args...)
			continue
		}
		id := strings.TrimSpace(l.wants(c.uid, exitOK, nil, args...))
		out := l.wants(c.uid, exitOK, []string{`"tenant":"` + c.tenant + `"`}, "wait", "--json", id)
		if strings.Contains(out, "veiled") {
			t.Errorf("a user does not see the own one:\n%s", out)
		}
	}
	for _, wrong := range []string{"nobody-has-this-name=x", "47001", "=x", "47001="} {
		expect(t, exitUsage, []string{"--tenant " + wrong}, "serve", "--group", "47000", "--tenant", wrong, "--dir",
			filepath.Join(t.TempDir(), "runs"))
	}
	expect(t, exitUsage, []string{"without --group"}, "serve", "--tenant", "root=x", "--dir", t.TempDir())
}

// dataOf is what a page shows.
func dataOf(t *testing.T, page string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, `id="data"`)
	_, rest, _ = strings.Cut(rest, ">")
	rest, _, _ = strings.Cut(rest, "<")
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(rest)))
	if err != nil || !found {
		t.Fatalf("the page has no data: %v", err)
	}
	text, err := io.ReadAll(z)
	must(t, err)
	return string(text)
}

// attack is what a hostile client hands in, in place of what gantry submit finds with the rights of its user.
type attack struct {
	Inputs []string // paths on the host of the one input, each of a workflow of its own
	Mounts []string // of a container, the same
	UID    int      // in whose name
}

// TestAsAttacker hands in an attack, and prints the numbers. It is run as another user.
func TestAsAttacker(t *testing.T) {
	text := os.Getenv("GANTRY_TEST_ATTACK")
	if text == "" {
		return
	}
	var a attack
	must(t, json.Unmarshal([]byte(text), &a))
	cl := api.NewClient(os.Getenv("GANTRY_DIR"))
	hand := func(input, mount string) {
		task := trace.Task{ID: "t", Kind: "t", Command: []string{"sh", "-c", "id; cat f /mnt/secret"},
			Image: "gantry/busybox", Known: trace.Command | trace.Image}
		flow := &trace.Workflow{Name: "attack", Label: "attack"}
		sub := &executor.Submission{Name: "attack", Workflow: flow, By: &executor.User{UID: a.UID, GID: a.UID}}
		if input != "" {
			task.Inputs = []int32{0}
			flow.Files = []trace.File{{Name: "f", Producer: -1}}
			sub.Sources = []executor.Source{{Path: input, Size: 1}}
		}
		if mount != "" {
			flow.Containers, task.Container = []trace.Container{{Name: "m", Mounts: []string{mount}}}, 1
		}
		flow.Tasks = []trace.Task{task}
		definition, err := sqlite.EncodeSubmission(sub)
		must(t, err)
		got, err := cl.Submit(t.Context(), &api.Submit{Workflows: []api.Workflow{{Name: "attack",
			Definition: definition}}})
		if err != nil {
			t.Log("refused:", err)
			return
		}
		t.Log("accepted:", input, mount, got.IDs[0])
	}
	for _, x := range a.Inputs {
		hand(x, "")
	}
	for _, x := range a.Mounts {
		hand("", x)
	}
}

// Nobody reads or writes files of others through the server: by inputs, links, names, mounts, or while a link changes.
func TestUsersCannotReachFilesOfOthers(t *testing.T) {
	beside(t)
	needsBusybox(t)
	l := newLab(t, "--runtime", runtimesOf(t)[0], "--retry", "host-error=0", "--oversubscribe")
	const secret = "his secret"
	hers, his := l.home(alice), l.home(bob)
	file := l.write(bob, filepath.Join(his, "secret"), secret)
	inside := filepath.Join(his, "open") // all may read what is in it, but not come there
	must(t, os.Mkdir(inside, 0o755))
	must(t, os.WriteFile(filepath.Join(inside, "secret"), []byte(secret), 0o644))
	own := filepath.Join(hers, "own")
	must(t, os.Mkdir(own, 0o755))
	must(t, os.WriteFile(filepath.Join(own, "secret"), []byte("her own"), 0o644))
	must(t, os.Symlink(file, filepath.Join(hers, "link")))
	must(t, os.Symlink(inside, filepath.Join(hers, "dir")))
	must(t, os.Link(filepath.Join(his, "secret"), filepath.Join(hers, "hard")))

	// His work reads it, and leaves it to him alone.
	l.write(bob, filepath.Join(his, "Makeflow"), "out: secret\n\tcat secret >out; cat secret\n")
	l.wants(bob, exitOK, []string{"1: Makeflow-1"}, "submit", "--image", "gantry/busybox", "--no-prediction",
		"Makeflow")
	l.wants(bob, exitOK, nil, "wait", "--results-dir", "place", "1")
	l.belongs(bob, filepath.Join(his, "place", "out"))
	l.wants(alice, exitHost, []string{"--results-dir", "permission denied"}, "wait", "--results-dir", his, "1")
	results := filepath.Join(l.dir, "lab", "results", "Makeflow-1")
	for _, path := range []string{results, filepath.Join(results, "out"),
		filepath.Join(l.dir, "lab", "work", "Makeflow-1", "out-1", ".command.out")} {
		l.belongs(bob, path)
	}
	if _, out := l.as(bob, "logs", "1", "out"); out != secret {
		t.Errorf("his log has %q", out)
	}
	l.wants(alice, exitHost, []string{"another user"}, "logs", "1", "out")
	for _, archive := range []string{"file://", "docker-archive:", "oci-archive:"} { // root would open them
		l.wants(bob, exitInput, []string{"takes no archives"}, "submit", "--image", archive+file, "--no-prediction",
			"Makeflow")
	}
	for _, image := range []string{"127.0.0.1:1/x", "gantry/no-such-image"} { // root would say how a host answers
		l.wants(bob, exitInput, []string{"is not on this host, and cannot be had: name another one, or ask root"},
			"submit", "--image", image, "--no-prediction", "Makeflow")
	}

	// What changes while gantry looks at it: now hers, now his.
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for name, to := range map[string][]string{"race": {filepath.Join(own, "secret"),
				filepath.Join(inside, "secret")}, "swap": {own, inside}} {
				_ = os.Symlink(to[i%2], filepath.Join(hers, "new"))
				_ = os.Rename(filepath.Join(hers, "new"), filepath.Join(hers, name))
			}
			time.Sleep(50 * time.Microsecond) // the others need the processor, too
		}
	}()
	race, swap := filepath.Join(hers, "race"), filepath.Join(hers, "swap")
	a := attack{UID: bob, Inputs: []string{file, filepath.Join(inside, "secret"), filepath.Join(hers, "link"),
		filepath.Join(hers, "dir"), filepath.Join(hers, "dir", "secret"), filepath.Join(hers, "hard"), his, inside,
		"../home-2/secret", hers + "/../home-2/secret", file + "\n", "/etc/shadow", "/proc/1/environ",
		"/proc/self/fd/3",
		filepath.Join(l.dir, "gantry.sqlite"), filepath.Join(results, "out"), filepath.Join(own, "secret"),
		race, race, race, race, swap + "/secret", swap + "/secret", swap},
		Mounts: []string{inside + ":/mnt", filepath.Join(hers, "dir") + ":/mnt", his + ":/mnt", results + ":/mnt",
			executor.InPlace(his, true), executor.InPlace(inside, false), inside + ":/mnt:rw", "/:/mnt",
			"/proc/1/root:/mnt",
			own + ":/mnt", swap + ":/mnt", swap + ":/mnt", swap + ":/mnt"}}
	text, err := json.Marshal(a)
	must(t, err)
	cmd := exec.Command(l.self)
	cmd.Args = []string{"attacker", "-test.run", "^TestAsAttacker$", "-test.v"} // under this name it is no gantry
	cmd.Dir, cmd.Env = hers, append(os.Environ(), "GANTRY_TEST_ATTACK="+string(text), "GANTRY_DIR="+l.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice,
		Groups: []uint32{labGroup, otherGroup}}}
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	n := strings.Count(string(said), "accepted:")
	if n < 10 || !strings.Contains(string(said), "refused:") {
		t.Fatalf("%d were accepted:\n%s", n, said)
	}
	l.drain()
	close(stop)
	<-stopped

	read := 0
	must(t, filepath.WalkDir(filepath.Join(l.dir, "lab"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) && !strings.Contains(path, "Makeflow-1") {
			t.Errorf("%s has his secret", path)
		}
		// It is empty where a mount was found out at the start.
		if d.Name() == ".command.out" && strings.Contains(path, "attack") && len(text) > 0 {
			// id repeats the group of the user itself among the others in some versions.
			first, _, _ := strings.Cut(string(text), "\n")
			if strings.Replace(first, ",47001", "", 1) != "uid=47001 gid=47001 groups=47000,47010" {
				t.Errorf("%s: its program was %q", path, text)
			}
			if strings.Contains(string(text), "her own") {
				read++
			}
		}
		return err
	}))
	if read < 2 { // her file, and her directory
		t.Errorf("%d attacks read what is hers:\n%s", read, said)
	}
}

// A shell that root opens for a member's task has the member's rights: on files, too, which may have changed since.
func TestAShellHasTheRightsOfTheMember(t *testing.T) {
	beside(t)
	needsBusybox(t)
	l := newLab(t, "--runtime", runtimesOf(t)[0], "--oversubscribe")
	hers, his := l.home(alice), l.home(bob)
	file := l.write(bob, filepath.Join(his, "secret"), "his secret")
	l.write(alice, filepath.Join(hers, "own"), "her own")
	l.write(alice, filepath.Join(hers, "Makeflow"), "out: own\n\tcat own >out\n")
	l.wants(alice, exitOK, nil, "submit", "--image", "gantry/busybox", "--no-prediction", "Makeflow")
	l.wants(alice, exitOK, nil, "wait", "1")
	shell := func() (int, string) {
		cmd := exec.Command(l.self, "shell", "--dir", l.dir, "lab", "out")
		cmd.Stdin = strings.NewReader("id -u; cat own; cat .command.sh\n")
		said, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(said)
	}
	if code, said := shell(); code != exitOK || !strings.HasPrefix(said, "47001\nher own") {
		t.Errorf("the shell ended with %d: %q", code, said)
	}
	err := errors.Join(os.Remove(filepath.Join(l.dir, "lab", "nodes", "host", "Makeflow-1", "own")),
		os.Remove(filepath.Join(hers, "own")), os.Symlink(file, filepath.Join(hers, "own")))
	must(t, err)
	if code, said := shell(); code != exitHost || !strings.Contains(said, "you may not read it") {
		t.Errorf("a link to another one's file ended with %d: %q", code, said)
	}
}

// Commands of members run in the image of the server, also in one that they may not name.
func TestMembersTakeTheImageOfTheirServer(t *testing.T) {
	needsOCI(t)
	l := newLab(t, "--runtime", "oci", "--image", "file://"+archiveFor(t, runtime.GOARCH))
	l.write(alice, filepath.Join(l.home(alice), "Makeflow"), "out:\n\techo >out\n")
	l.wants(alice, exitOK, nil, "submit", "--no-prediction", "Makeflow")
	l.wants(alice, exitTasksFailed, nil, "wait", "1")
}

// A submission's secrets are seen by its programs alone: not in the log, not by other users, and not once it is over.
func TestSecretsOfASubmissionAreItsOwn(t *testing.T) {
	beside(t)
	needsBusybox(t)
	l := newLab(t, "--runtime", runtimesOf(t)[0], "--oversubscribe")
	const value = "hers-7f3a91"
	hers, his := l.home(alice), l.home(bob)
	file := l.write(alice, filepath.Join(hers, "token"), value+"\n")
	l.write(alice, filepath.Join(hers, "Makeflow"), "out:\n\tcat /run/secrets/token >/dev/null; md5sum "+
		"</run/secrets/token >out; cat /run/secrets/token >&2; while [ ! -e /mnt/go ]; do sleep 0.1; done; exit 3\n")
	gate := filepath.Join(hers, "gate")
	must(t, errors.Join(os.Mkdir(gate, 0o700), os.Chown(gate, alice, alice)))
	secrets := func(below string) []string {
		found, err := filepath.Glob(filepath.Join("/dev/shm/gantry-lab-*.submitted", below))
		must(t, err)
		return found
	}
	before := secrets("")
	others := func(path string) bool { // another server's
		return slices.ContainsFunc(before, func(dir string) bool { return strings.HasPrefix(path, dir) })
	}
	l.write(bob, filepath.Join(his, "Makeflow"), "mine:\n\tls /run/secrets && exit 0; exit 7\n")
	l.wants(bob, exitInput, []string{"token"}, "submit", "--secret", "token="+file, "--image", "gantry/busybox",
		"Makeflow") // which he may not read
	l.wants(alice, exitOK, []string{"1: Makeflow-1"}, "submit", "--image", "gantry/busybox", "--no-prediction",
		"--retries", "0", "--secret", "token=token", "--mount", gate+":/mnt:ro", "Makeflow")
	work := filepath.Join(l.dir, "lab", "work", "Makeflow-1", "out-1")
	for !strings.Contains(read(t, filepath.Join(work, ".command.err")), value) {
		time.Sleep(20 * time.Millisecond)
	}
	kept := slices.DeleteFunc(secrets("*/token"), others)
	if len(kept) != 1 {
		t.Fatalf("kept are %q", kept)
	}
	l.belongs(alice, kept[0])
	// He finds neither it nor what a mount of his, or an input, could show him of it.
	l.wants(bob, exitInput, nil, "submit", "--mount", kept[0]+":/mnt:ro", "--image", "gantry/busybox", "Makeflow")
	l.write(bob, filepath.Join(his, "steals.makeflow"), "out: stolen\n\tcat stolen >out\n")
	must(t, os.Symlink(kept[0], filepath.Join(his, "stolen")))
	l.wants(bob, exitInput, nil, "submit", "--image", "gantry/busybox", "steals.makeflow")
	l.wants(bob, exitOK, nil, "submit", "--image", "gantry/busybox", "Makeflow")
	l.write(alice, filepath.Join(gate, "go"), "")
	l.wants(alice, exitTasksFailed, nil, "wait", "1")
	l.wants(bob, exitTasksFailed, nil, "wait", "2")
	if _, err := os.Stat(kept[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is kept after its submission was over: %v", err)
	}
	l.drain()
	if left := slices.DeleteFunc(secrets(""), others); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	for _, name := range []string{"gantry.sqlite", "gantry.sqlite-wal"} {
		if strings.Contains(read(t, filepath.Join(l.dir, name)), value) {
			t.Errorf("%s has the value", name)
		}
	}
	if got := expect(t, exitOK, nil, "explain", "--dir", l.dir, "1", "out"); strings.Contains(got, value) ||
		!strings.Contains(got, "***") {
		t.Errorf("what the program said is shown as\n%s", got)
	}
}

// read is the text of a file, "" if it is not there.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
