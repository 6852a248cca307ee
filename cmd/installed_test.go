package cmd

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownHost has gantry run in its own view of this host, which the commands of a setup change.
func ownHost(t *testing.T, setup string, args ...string) (code int, said string) {
	t.Helper()
	needsOCI(t)
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("needs mount namespaces")
	}
	return under(t, gantryLink(t), []string{"unshare", "--mount", "--propagation", "private", "sh", "-ec",
		"export GANTRY_TASK=$(realpath ../bin/gantry-task)\n" + setup + "\nexec \"$@\"", "sh"}, args...)
}

// programsSetup gives the host secrets, and file systems below its root, one with a socket and a pipe.
const programsSetup = `mkdir $D/etc $D/place; echo mounted >$D/place/file; cp -a /etc/. $D/etc
mount --bind $D/etc /etc; cd /etc; mkdir -p ssh
for f in shadow open ssh/open mine; do echo $f >$f; chmod 644 $f; done; chmod 640 mine
mkdir deep; echo open >deep/open; chmod 700 deep; mkdir own; mount -t tmpfs none own; echo open >own/open
mount -t tmpfs -o mode=755 none /opt; cd /opt; mkdir tool 'a b' closed shared
mount -t tmpfs none tool; printf '#!/bin/sh\necho tool\n' >tool/run; chmod 755 tool/run; mkdir -m 1777 tool/tmp
mount -t tmpfs none 'a b'; echo blank >'a b/file'
mkdir closed/in; mount -t tmpfs none closed/in; echo closed | tee closed/in/file >closed/file; chmod 700 closed
mkdir priv; mount -t tmpfs -o mode=750 none priv; echo priv >priv/file
mkdir -m 777 loose loose/in; mount -t tmpfs none loose/in; echo loose >loose/in/file
mount --bind $D/shared shared; mknod shared/null c 1 3; mkfifo shared/pipe; chmod 666 shared/null shared/pipe
echo below >file; echo above >$D/above; mount --bind $D/above file
exec 9<>shared/pipe; mkdir log; mount --bind $D log; cd log`

// look is the program of a task that tries to see and to change what it should not.
const look = `exec 2>/dev/null; ls -m /opt; cat /etc/open /opt/file '/opt/a b/file' /opt/new/place/file
/opt/tool/run; id -un
for d in home root run var mnt media srv boot tmp/ht work; do [ ! -e /$d ] || echo "sees /$d"; done
for f in /etc/shadow /etc/ssh/open /etc/mine /etc/deep/open /etc/own/open /opt/shared/null /opt/closed/in/file \
	/opt/closed/file /opt/loose/in/file /opt/priv/file /opt/log/runs/gantry.sqlite; do
	head -c 9 $f >/dev/null && echo "reads $f"; done
for f in /x /etc/x /opt/tool/tmp/x /opt/shared/x /opt/log/shared/x; do echo >$f && echo "writes $f"; done
timeout 1 sh -c 'echo x >/opt/shared/pipe' && echo writes to the pipe
perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); print "connects\n" if connect(S, pack_sockaddr_un($ARGV[0]))' \
	/opt/shared/socket
true
`

// Programs of the host run, wherever they are installed, and see and change nothing else of it.
func TestProgramsOfTheHost(t *testing.T) {
	beside(t)
	dir := writeFiles(t, map[string]string{"look.sh": look, "h.mf": "out: look.sh\n\tsh look.sh >out\n"})
	socket := filepath.Join(dir, "shared", "socket")
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Dir(socket), 0o777)))
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer l.Close()
	must(t, errors.Join(os.Chmod(filepath.Dir(socket), 0o777), os.Chmod(socket, 0o777)))
	code, said := ownHost(t, "D="+dir+"\n"+programsSetup, "run", "--image", "host", "--dir", "runs", "--name", "r",
		"--mount", dir+"/place:/opt/new/place:ro", "--mount", dir+"/place:/opt/closed/new:ro", "h.mf")
	got, err := os.ReadFile(filepath.Join(dir, "runs/r/results/h/out"))
	want := "a b, closed, file, log, loose, new, priv, shared, tool\nopen\nabove\nblank\nmounted\ntool\nnobody\n"
	if code != exitOK || string(got) != want {
		t.Errorf("exit code %d, %v\n%s\nit printed\n%s", code, err, said, got)
	}
}

// A file system of the host that cannot be shown is named before anything starts.
func TestAHostThatCannotBeShown(t *testing.T) {
	beside(t)
	dir := writeFiles(t, map[string]string{"h.mf": "out:\n\ttrue >out\n"})
	// Overlays have at most two floors.
	setup := "cd " + dir + "; mount -t tmpfs -o mode=755 none /opt; mkdir -p /opt/a one none; " +
		"mount -t overlay -o lowerdir=/usr/lib:none none one; mount -t overlay -o lowerdir=one:none none /opt/a"
	for _, dry := range []string{"--dry-run", "--dry-run=false"} {
		code, said := ownHost(t, setup, "run", "--image", "host", "--dir", dir, dry, "h.mf")
		if code != exitHost || !strings.Contains(said, "--image host: /opt/a of this host cannot be shown in ") ||
			!strings.Contains(said, "nothing was started") {
			t.Errorf("%s: exit code %d\n%s", dry, code, said)
		}
	}
	if _, said := ownHost(t, setup, "doctor", "--runtime", "oci"); !strings.Contains(said, "/opt/a of this host") {
		t.Errorf("doctor says\n%s", said)
	}
}

// Other runtimes refuse programs of the host, and a workflow or a folder alone does not get them. Results of theirs are
// not reused.
func TestProgramsOfTheHostAreAskedFor(t *testing.T) {
	dir := writeFiles(t, map[string]string{"h.mf": "out:\n\tgzip --version >out\n", "h.yml": `pegasus: "5.0"
name: h
jobs: [{type: job, name: gzip, id: a, arguments: [--version], stdout: out,
  uses: [{lfn: out, type: output, stageOut: true}]}]
transformationCatalog:
  transformations: [{name: gzip, sites: [{name: local, pfn: /bin/gzip, type: installed, container: it}]}]
  containers: [{name: it, type: docker, image: "docker://host"}]
`})
	runs := []string{"run", "--dir", filepath.Join(dir, "runs")}
	flow := filepath.Join(dir, "h.mf")
	expect(t, exitHost, []string{"--image host: containers of runtime docker show no programs of this host: take " +
		"--runtime oci"}, append(runs, "--runtime", "docker", "--image", "host", flow)...)
	needsOCI(t)
	expect(t, exitInput, []string{"task a asks for the programs of this host", "--image host allows"},
		append(runs, "--runtime", "oci", filepath.Join(dir, "h.yml"))...)
	runs = append(runs, "--image", "host", "--reuse")
	expect(t, exitOK, nil, append(runs, "--name", "first", flow)...)
	expect(t, exitOK, nil, append(runs, "--name", "named", filepath.Join(dir, "h.yml"))...) // which names it itself
	why := "it runs programs of this host (image host), of which nobody knows whether they changed"
	if out := expect(t, exitOK, nil, append(runs, "--dry-run", flow)...); !strings.Contains(out, "h/out ("+why) ||
		!strings.Contains(out, "show it") {
		t.Errorf("the dry run says\n%s", out)
	}
	expect(t, exitOK, nil, append(runs, "--name", "again", flow)...)
	if out := expect(t, exitOK, nil, "explain", runs[1], runs[2], "again", "out"); !strings.Contains(out, why) {
		t.Errorf("explain says\n%s", out)
	}
	crate := filepath.Join(dir, "crate")
	expect(t, exitOK, nil, "export", runs[1], runs[2], "--format", "rocrate", "-o", crate, "first")
	if text, err := os.ReadFile(filepath.Join(crate, "ro-crate-metadata.json")); err != nil ||
		strings.Contains(string(text), "DockerImage") {
		t.Errorf("the crate has an image: %v\n%s", err, text)
	}
}

// A server shows programs of its host if it was told to, not if a submission wants it.
func TestAServerShowsProgramsOfItsHost(t *testing.T) {
	needsOCI(t)
	flow := written(t, "h.mf", "out:\n\tgzip --version >out\n")
	for _, image := range []string{"gantry/busybox", "host"} {
		s := serveIn(t, t.TempDir(), "--runtime", "oci", "--image", image)
		if image == "host" {
			s.submit("--image", "host", flow)
			expect(t, exitOK, []string{"done"}, "wait", "--dir", s.dir, "1")
		} else {
			expect(t, exitInput, []string{"which only --image host allows"}, "submit", "--dir", s.dir, "--image",
				"host", flow)
		}
	}
}
