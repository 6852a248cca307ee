package docker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/stage"
	"gantry/planner"
	"gantry/planner/unit"
)

// containers lists the names of the run's containers.
func (r *rig) containers() (names []string) {
	r.t.Helper()
	e := r.engine()
	defer e.Close()
	all, err := e.List(context.Background(), container.LabelRun, r.config.Run)
	r.must(err)
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

func TestFilesGoFromTaskToTask(t *testing.T) {
	if onOne(t, TestFilesGoFromTaskToTask) {
		return
	}
	r := newRig(t, twoNodes)
	given := filepath.Join(t.TempDir(), "given")
	r.must(os.WriteFile(given, []byte("from outside\n"), 0o600))
	if u := stage.Caller(); u.UID != os.Getuid() { // a user who can read it
		r.must(os.Chown(given, u.UID, u.GID))
		r.must(os.Chmod(filepath.Dir(given), 0o755))
		r.must(os.Chmod(filepath.Dir(filepath.Dir(given)), 0o755))
	}
	in := r.file("data/in.txt")
	in.Produced, in.External = false, given
	mid := r.file("sub/dir/mid.txt")
	mid.Final = false
	a := r.sh("tr a-z A-Z < data/in.txt", mid)
	a.Inputs, a.Stdout = []*executor.FileSpec{in}, "sub/dir/mid.txt"
	r.wants(r.exit(r.launch(a, nil)), planner.OK)

	// On the other node: copied there, read through standard input, and changed in place.
	last := r.file("last")
	b := r.sh("cat > last; echo more >> sub/dir/mid.txt; printf 'no line end' >> last", last)
	b.Inputs, b.Stdin = []*executor.FileSpec{mid}, "sub/dir/mid.txt"
	x := r.exit(r.launch(b, func(l *executor.Launch) {
		l.Node, l.Fetch = 1, []executor.Fetch{{File: mid.ID, Spec: mid, From: 0}}
	}))
	if x.Outcome != planner.OK && x.Outcome != planner.ExitCode {
		t.Fatal(x.Message)
	}
	if x.Usage.CopiedBytes != 13 {
		t.Errorf("copied %d bytes, not 13", x.Usage.CopiedBytes)
	}
	if got := r.read(r.node(1, "sub/dir/mid.txt")); got != "FROM OUTSIDE\n" {
		t.Errorf("the copy is %q: a task could change its input", got)
	}
	result := filepath.Join(r.config.Dir, "results", "wf", "last")
	if got := r.read(result); got != "FROM OUTSIDE\nno line end" {
		t.Errorf("result %q", got)
	}
	if me := uint32(stage.Caller().UID); ownedBy(t, result) != me || ownedBy(t, r.node(0, "sub/dir/mid.txt")) != me {
		t.Error("outputs do not belong to the caller")
	}
	if got := r.read(given); got != "from outside\n" {
		t.Errorf("the user's file is now %q", got)
	}
	if _, err := os.Stat(filepath.Join(r.config.Dir, "results", "wf", "sub")); err == nil {
		t.Error("a file that a task reads is among the results")
	}
}

// A file from outside in blocks of five bytes, each on one or two of three nodes: what is not on the node of the task
// is copied there.
func TestBlocksLieOnTheirNodesAndAreReadWhole(t *testing.T) {
	if onOne(t, TestBlocksLieOnTheirNodesAndAreReadWhole) {
		return
	}
	r := newRig(t, func(c *container.Config) {
		twoNodes(c)
		third := c.Platform.Nodes[1]
		third.ID, third.Name = 2, "n2"
		c.Platform.Nodes = append(c.Platform.Nodes, third)
	})
	given := filepath.Join(t.TempDir(), "given")
	r.must(os.WriteFile(given, []byte("0123456789abcdef-more than the trace says"), 0o600))
	homes := [][]planner.NodeID{{0}, {1, 2}, {2}, {0, 1}}
	blocks := make([]*executor.FileSpec, len(homes))
	for i := range blocks {
		b := r.file("in")
		b.Produced, b.Final, b.Sized, b.Size, b.External, b.Homes = false, false, true, 5, given, homes[i]
		b.Block, b.Blocks, b.From, b.To = int32(i), int32(len(homes)), unit.Bytes(5*i), unit.Bytes(5*i+5)
		blocks[i] = b
	}
	blocks[3].To = 0 // up to the end
	out := r.file("out")
	s := r.sh("cat in > out", out)
	s.Inputs = blocks
	x := r.exit(r.launch(s, func(l *executor.Launch) {
		l.Node = 1
		l.Fetch = []executor.Fetch{{File: blocks[0].ID, Spec: blocks[0], From: 0}, {File: blocks[2].ID, Spec: blocks[2],
			From: 2}}
	}))
	r.wants(x, planner.OK)
	if got := r.read(r.node(1, "out")); got != "0123456789abcdef-more than the trace says" {
		t.Errorf("the task read %q", got)
	}
	if x.Usage.InputBytes != 41 || x.Usage.CopiedBytes != 10 {
		t.Errorf("%d bytes of which %d were copied, want 41 and 10", x.Usage.InputBytes, x.Usage.CopiedBytes)
	}
	want := map[string]string{"0/0": "01234", "0/3": "f-more than the trace says", "1/0": "01234", "1/1": "56789",
		"1/2": "abcde", "1/3": "f-more than the trace says", "2/1": "56789", "2/2": "abcde"}
	for n := range 3 {
		for k := range blocks {
			text, err := os.ReadFile(r.node(n, fmt.Sprintf("in.block-000%d", k)))
			if w, ok := want[fmt.Sprintf("%d/%d", n, k)]; string(text) != w || (err == nil) != ok {
				t.Errorf("block %d on node %d is %q, %v; want %q", k, n, text, err, w)
			}
		}
	}
}

func TestMadeUpInputsHaveTheirSizeAndDoNotCompress(t *testing.T) {
	if onOne(t, TestMadeUpInputsHaveTheirSizeAndDoNotCompress) {
		return
	}
	r := newRig(t, twoNodes)
	f := r.file("x")
	f.Produced, f.Size, f.Sized = false, 300_001, true
	s := r.sh("test $(wc -c < x) = 300001 && test $(gzip -c < x | wc -c) -gt 290000")
	s.Inputs = []*executor.FileSpec{f}
	r.wants(r.exit(r.launch(s, func(l *executor.Launch) { l.Node = 1 })), planner.OK)
}

func TestHostileOutputs(t *testing.T) {
	if onOne(t, TestHostileOutputs) {
		return
	}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	r := newRig(t, nil)
	for _, c := range []struct{ name, script, output, says string }{
		{"symbolic link to a file of the host", "ln -s " + secret + " out", "out", "symbolic link"},
		{"directory with a link", "mkdir out; ln -s " + secret + " out/x", "out", "symbolic link"},
		{"pipe", "mkfifo out", "out", "pipe"},
		{"below a symbolic link", "rm -rf d; ln -s " + filepath.Dir(secret) + " d", "d/secret", "symbolic link"},
		{"work directory emptied and made a trap", "rm -rf .command.log .exitcode; ln -s " + secret +
			" .command.log; ln -s " + secret + " .exitcode; rm -f out", "out", "not written"},
		{"link at the error stream", "ln -sf " + secret + " .command.err; exit 0", "out", "not written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			x := r.exit(r.launch(r.sh(c.script, r.file(c.output)), nil))
			r.wants(x, planner.OutputMissing, c.says)
			said := strings.ReplaceAll(x.Message, secret, "")
			if strings.Contains(said, "secret") && !strings.Contains(c.output, "secret") {
				t.Errorf("message tells the content of a file of the host: %q", x.Message)
			}
			if got := r.read(secret); got != "secret" {
				t.Errorf("the file of the host is now %q", got)
			}
			if st, err := os.Stat(secret); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("the file of the host has mode %v, %v", st.Mode(), err)
			}
			if _, err := os.Lstat(r.node(0, "out")); err == nil {
				t.Error("it was published")
			}
		})
	}
}

// A program changes an input that is also its output, and no other file that was there; what it publishes has its bytes
// and no rights of others.
func TestWhatATaskMayWrite(t *testing.T) {
	if onOne(t, TestWhatATaskMayWrite) {
		return
	}
	r := newRig(t, nil)
	in, both, binary, p := r.file("in"), r.file("both"), r.file("out.bin"), r.file("p")
	in.Produced, in.Size, in.Sized = false, 10, true
	both.Size, both.Sized = 5, true
	r.must(os.MkdirAll(filepath.Dir(r.node(0, "both")), 0o755))
	r.must(os.WriteFile(r.node(0, "both"), []byte("one\n"), 0o644))
	s := r.sh("echo x > in; echo x > ../other; echo x > "+r.config.Dir+"/nodes/x; echo two >> both; "+
		`cp /bin/busybox p; chmod 6755 p; printf 'a\0\377\n\n\r'; i=0; while [ $i -lt 3000 ]; do `+
		`printf 'long line without end '; i=$((i+1)); done`, both, binary, p)
	s.Inputs, s.Stdout = []*executor.FileSpec{in, both}, "out.bin"
	r.wants(r.exit(r.launch(s, nil)), planner.OK)
	if got := r.read(r.node(0, "in")); len(got) != 10 {
		t.Errorf("an input was changed to %q", got)
	}
	for _, path := range []string{filepath.Join(r.config.Dir, "nodes", "x"), filepath.Join(r.work(s), "../other")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("a task wrote %s, outside its directory", path)
		}
	}
	if got := r.read(r.node(0, "both")); got != "one\ntwo\n" {
		t.Errorf("the input that is an output is %q", got)
	}
	if got, want := r.read(r.node(0, "out.bin")), "a\x00\xff\n\n\r"+strings.Repeat("long line without end ",
		3000); got != want {
		t.Errorf("%d bytes, not %d, or others", len(got), len(want))
	}
	if st, err := os.Stat(r.node(0, "p")); err != nil || st.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// Temporary files are on disk, and count for its limit, or in memory of a given size; a program that finds them full
// says so in its verdict. Nothing of them is left.
func TestTemporaryFiles(t *testing.T) {
	if onOne(t, TestTemporaryFiles) {
		return
	}
	r := newRig(t, func(c *container.Config) { c.Disk = 160 << 20 })
	much := func(l *executor.Launch) { l.Hold[unit.Memory] = 100 << 20 }
	r.wants(r.exit(r.launch(r.sh("dd if=/dev/zero of=/tmp/x bs=1M count=110 && cp /bin/busybox /tmp/true && "+
		"mkdir -m 0 /tmp/closed && /tmp/true && test ! -e /tmp/other && "+
		"dd if=/dev/zero of=/dev/shm/x bs=1M count=70"), much)),
		planner.OK)
	r.wants(r.exit(r.launch(r.sh("test ! -e /tmp/x && dd if=/dev/zero of=/tmp/x bs=1M count=220; sleep 60"), nil)),
		planner.OutOfDisk, "/tmp")
	r = newRig(t, func(c *container.Config) { c.Tmp = 4096 * 2500 })
	r.wants(r.exit(r.launch(r.sh("echo x >/tmp/a; cat /dev/zero >/tmp/x"), nil)), planner.ExitCode,
		"/tmp was full (10.24 MB)")
	r.wants(r.exit(r.launch(r.sh("cat /dev/zero >/tmp/x || rm /tmp/x; echo write /tmp/x: No space left on device "+
		">&2; exit 2"), nil)), planner.ExitCode, "/tmp was full (10.24 MB)")
	r.wants(r.exit(r.launch(r.sh("cat /dev/zero >/dev/shm/x"), func(l *executor.Launch) {
		l.Hold[unit.Memory] = 7 << 20
	})), planner.OutOfMemory)
}
