package cmd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bridged listens on the host's address in the network of Docker's containers.
func bridged(t *testing.T) net.Listener {
	t.Helper()
	needsDocker(t)
	out, err := exec.Command("docker", "network", "inspect", "bridge", "--format",
		"{{range .IPAM.Config}}{{.Gateway}} {{end}}").Output()
	if address := strings.Fields(string(out)); err == nil && len(address) > 0 {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(address[0], "0")); err == nil {
			t.Cleanup(func() { l.Close() })
			return l
		}
	}
	t.Skipf("needs a Docker Engine whose network bridge is up (ip link add docker0 type bridge): %v", err)
	return nil
}

// Tasks have no network. Those that the user names have one, by the last pattern that matches.
func TestTasksWithANetwork(t *testing.T) {
	l := bridged(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "from outside")
			c.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(l.Addr().String())
	rule := func(out string) string {
		return fmt.Sprintf("%s:\n\tnc -w 9 %s %s </dev/null >%s\n", out, host, port, out)
	}
	dir := writeFiles(t, map[string]string{"n.makeflow": "CATEGORY=fetch-a\n" + rule("a") + "CATEGORY=fetch-b\n" +
		rule("b") + "CATEGORY=plain\n" + rule("c")})
	runs := "--dir=" + filepath.Join(dir, "runs")
	out := expect(t, exitTasksFailed, nil, "run", runs, "--runtime=docker", "--name=n", "--image=gantry/busybox",
		"--network=fetch-*=outbound", "--network=fetch-b=none", filepath.Join(dir, "n.makeflow"))
	if !strings.Contains(out, "1 task of 3 done, 2 failed") {
		t.Errorf("it says\n%s", out)
	}
	expect(t, exitOK, []string{"a"}, "show", runs, "--tasks", "n")
	if _, out, _ := invoke(t, "analyze", runs, "n"); !strings.Contains(out, "have no network, unless --network") ||
		!strings.Contains(out, "repeat it:      echo 'sh .command.sh' | gantry shell n ") {
		t.Errorf("analyze says\n%s", out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "runs", "n", "results", "n", "a"))
	if err != nil || string(text) != "from outside\n" {
		t.Errorf("the task with a network read %q: %v", text, err)
	}
}

func TestNetworksThatCannotBe(t *testing.T) {
	dir := writeFiles(t, map[string]string{"n.makeflow": "CATEGORY=fetch\na:\n\ttrue >a\n"})
	file, runs := filepath.Join(dir, "n.makeflow"), "--dir="+filepath.Join(dir, "runs")
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, `--network "out" is outbound or none`, []string{"--network=out"}},
		{exitUsage, `--network "[=outbound": syntax error in pattern of names`, []string{"--network=[=outbound"}},
		{exitInput, "--network has no effect here: it gives no command a network", []string{"--network=b*=outbound",
			"--image=x"}},
		{exitInput, "--network has no effect here: no task runs a program", []string{"--network=outbound",
			"--emulate"}},
		{exitHost, "containers of runtime oci have no network: take --runtime docker", []string{"--network=outbound",
			"--image=x", "--runtime=oci"}},
	} {
		expect(t, c.code, []string{c.says}, append(append([]string{"run", runs}, c.args...), file)...)
	}
}
