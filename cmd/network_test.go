package cmd

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gantry/cgroup/thread"
	"gantry/executor/container/oci"
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

// outside listens in a network namespace of its own, to which a pair of devices leads from this host.
func outside(t *testing.T) (l net.Listener, here string) {
	t.Helper()
	needsOCI(t)
	if why := oci.NoNetwork(); why != "" {
		t.Skip(why)
	}
	n := os.Getpid() % 60 * 4
	here, there, device := fmt.Sprint("198.51.100.", n+1), fmt.Sprint("198.51.100.", n+2), fmt.Sprint("gt", os.Getpid())
	var ns *os.File
	opened := make(chan error)
	thread.Go(func() {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			ns, err = os.Open("/proc/thread-self/ns/net")
		}
		if err == nil {
			l, err = net.Listen("tcp4", ":0")
		}
		opened <- err
	})
	if err := <-opened; err != nil {
		t.Skipf("needs a network namespace: %v", err)
	}
	t.Cleanup(func() {
		l.Close()
		ns.Close()
		_ = exec.Command("ip", "link", "del", device).Run()
	})
	at := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd())
	for _, command := range []string{"ip link add " + device + " type veth peer name eth0 netns " + at,
		"ip addr add " + here + "/30 dev " + device, "ip link set " + device + " up",
		"nsenter --net=" + at + " ip addr add " + there + "/30 dev eth0",
		"nsenter --net=" + at + " ip link set eth0 up"} {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", command, err, out)
		}
	}
	return &elsewhere{l, there}, here
}

// elsewhere is a listener that others reach at an address.
type elsewhere struct {
	net.Listener
	at string
}

func (e *elsewhere) Addr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(e.at), Port: e.Listener.Addr().(*net.TCPAddr).Port}
}

// says has a listener say that it was reached.
func says(l net.Listener) (host, port string) {
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
	host, port, _ = net.SplitHostPort(l.Addr().String())
	return host, port
}

// Tasks have no network. Those that the user names have one, by the last pattern that matches.
func TestTasksWithANetwork(t *testing.T) {
	t.Run("docker", func(t *testing.T) { tasksWithANetwork(t, "docker", bridged(t)) })
	t.Run("oci", func(t *testing.T) {
		l, _ := outside(t)
		tasksWithANetwork(t, "oci", l)
	})
}

func tasksWithANetwork(t *testing.T, runtime string, l net.Listener) {
	host, port := says(l)
	rule := func(out string) string {
		return fmt.Sprintf("%s:\n\tnc -w 9 %s %s </dev/null >%s\n", out, host, port, out)
	}
	dir := writeFiles(t, map[string]string{"n.makeflow": "CATEGORY=fetch-a\n" + rule("a") + "CATEGORY=fetch-b\n" +
		rule("b") + "CATEGORY=plain\n" + rule("c"),
		"asked.makeflow": "NETWORK=outbound\n" + rule("d") + "CATEGORY=other\nNETWORK=none\n" + rule("e")})
	runs := "--dir=" + filepath.Join(dir, "runs")
	out := expect(t, exitTasksFailed, nil, "run", runs, "--runtime="+runtime, "--name=n", "--image=gantry/busybox",
		"--network=fetch-*=outbound", "--network=fetch-b=none", filepath.Join(dir, "n.makeflow"))
	if !strings.Contains(out, "1 task of 3 done, 2 failed") {
		t.Errorf("it says\n%s", out)
	}
	expect(t, exitOK, []string{"a"}, "show", runs, "--tasks", "n")
	const hint = "it has no network: --network outbound, or --network PATTERN=outbound, gives tasks one"
	if _, out, _ := invoke(t, "analyze", runs, "n"); !strings.Contains(out, hint) ||
		!strings.Contains(out, "repeat it:      echo 'sh .command.sh' | gantry shell --dir "+
			filepath.Join(dir, "runs")+" n n/") { // b or c, whichever failed first
		t.Errorf("analyze says\n%s", out)
	}
	expect(t, exitOK, []string{hint}, "explain", runs, "n", "c")
	out = expect(t, exitTasksFailed, nil, "run", runs, "--runtime="+runtime, "--name=asked", "--image=gantry/busybox",
		"--network=asked", filepath.Join(dir, "asked.makeflow"))
	if !strings.Contains(out, "1 task of 2 done, 1 failed") {
		t.Errorf("it says\n%s", out)
	}
	expect(t, exitOK, []string{", a network"}, "explain", runs, "asked", "d")
	text, err := os.ReadFile(filepath.Join(dir, "runs", "n", "results", "n", "a"))
	if err != nil || string(text) != "from outside\n" {
		t.Errorf("the task with a network read %q: %v", text, err)
	}
}

// Without a daemon a task with a network looks up names by the servers of this host, which may listen on its loopback,
// and reaches nothing else of this host.
func TestANetworkWithoutADaemonDoesNotReachThisHost(t *testing.T) {
	_, here := outside(t)
	names, err := net.ListenPacket("udp4", "127.0.0.53:53")
	if err != nil {
		t.Skip(err)
	}
	defer names.Close()
	go answerNames(names)
	l, err := net.Listen("tcp4", ":0")
	must(t, err)
	defer l.Close()
	_, port := says(l)
	var reach strings.Builder
	for _, to := range []string{"127.0.0.1", "127.0.0.53", "10.0.2.2", "10.0.2.3", "0.0.0.0", "255.255.255.255", here} {
		fmt.Fprintf(&reach, "nc -w 3 %s %s </dev/null >>own 2>/dev/null || true; ", to, port)
	}
	dir := writeFiles(t, map[string]string{"resolv.conf": "nameserver 127.0.0.53\nsearch lab.example\n",
		"n.makeflow": "name:\n\tnslookup -type=a data >name\nown:\n\t: >own; " + reach.String() + "\n"})
	if c, err := net.Dial("tcp", net.JoinHostPort(here, port)); err != nil {
		t.Fatal(err)
	} else {
		c.Close()
	}
	before := helpers(t)
	code, said := ownHost(t, "mount --bind "+filepath.Join(dir, "resolv.conf")+" /etc/resolv.conf", "run", "--dir",
		filepath.Join(dir, "runs"), "--runtime=oci", "--name=n", "--image=gantry/busybox", "--network=outbound",
		filepath.Join(dir, "n.makeflow"))
	if code != exitOK {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	results := filepath.Join(dir, "runs", "n", "results", "n")
	if got := readAll(t, results+"/own"); got != "" {
		t.Errorf("the task reached this host: %q", got)
	}
	if got := readAll(t, results+"/name"); !strings.Contains(got, "192.0.2.77") ||
		!strings.Contains(got, "data.lab.example") {
		t.Errorf("the task looked a name up: %q", got)
	}
	noHelpers(t, before)
}

// Packets of a task to a group of hosts (multicast) reach no service of this host, nor do those to an address that this
// host has without an interface.
func TestANetworkWithoutADaemonReachesNoGroup(t *testing.T) {
	_, here := outside(t)
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs python3, as busybox sends nothing to groups")
	}
	device, err := net.InterfaceByName(fmt.Sprint("gt", os.Getpid()))
	must(t, err)
	group := &net.UDPAddr{IP: net.IPv4(239, 198, 51, byte(os.Getpid()%60*4))}
	own := fmt.Sprint("203.0.113.", os.Getpid()%250)
	heard, err := net.ListenMulticastUDP("udp4", device, group)
	must(t, err)
	defer heard.Close()
	l, err := net.Listen("tcp4", ":0")
	must(t, err)
	defer l.Close()
	_, port := says(l)
	for _, route := range []string{group.IP.String() + " dev " + device.Name, "local " + own + " dev lo"} {
		if out, err := exec.Command("ip", strings.Fields("route add "+route)...).CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		defer func() { _ = exec.Command("ip", strings.Fields("route del "+route)...).Run() }()
	}
	send := fmt.Sprintf("import socket as s\nu = s.socket(s.AF_INET, s.SOCK_DGRAM)\nu.setsockopt(0, "+
		"s.IP_MULTICAST_TTL, 9)\nto = (%q, %d)\nu.sendto(b'one', to)\nt = s.socket()\nt.settimeout(3)\n"+
		"try: t.connect((%q, %s)); u.sendto(b'two', to)\nexcept OSError: pass\n", group.IP,
		heard.LocalAddr().(*net.UDPAddr).Port, own, port)
	task := strings.NewReplacer("b'one'", "b'task'", "b'two'", "b'task'").Replace(send) +
		"u.setsockopt(0, s.IP_MULTICAST_IF, s.inet_aton('10.0.2.100'))\nu.sendto(b'task', to)\n"
	expect(t, exitOK, nil, "run", "--dir", t.TempDir(), "--runtime=oci", "--image=host", "--network=outbound", "--",
		"python3", "-c", task)
	if out, err := exec.Command("python3", "-c", send).CombinedOutput(); err != nil { // from this host they arrive
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"one", "two"} {
		text := make([]byte, 100)
		n, from, err := heard.ReadFrom(text)
		if got := string(text[:n]); err != nil || got != want || !strings.HasPrefix(from.String(), here+":") {
			t.Fatalf("%q came from %v (%v), want %q of this host", got, from, err, want)
		}
	}
}

// answerNames says of all names that they have one address.
func answerNames(c net.PacketConn) {
	for b := make([]byte, 512); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		answer := append([]byte{}, b[:n]...)
		answer[2], answer[3], answer[7] = 0x81, 0x80, 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 77)
		_, _ = c.WriteTo(answer, from)
	}
}

// helpers are the processes that give containers a network.
func helpers(t *testing.T) map[string]bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	must(t, err)
	out := map[string]bool{}
	for _, at := range names {
		if comm, _ := os.ReadFile(at); string(comm) == "slirp4netns\n" {
			out[at] = true
		}
	}
	return out
}

// noHelpers waits until those that were not there before are gone.
func noHelpers(t *testing.T, before map[string]bool) {
	t.Helper()
	eventually(t, func() (bool, any) {
		now := helpers(t)
		maps.DeleteFunc(now, func(at string, _ bool) bool { return before[at] })
		return len(now) == 0, now
	})
}

// A container keeps its network while no gantry is there, and the program that makes it ends with the container.
func TestANetworkOutlivesGantry(t *testing.T) {
	l, _ := outside(t)
	host, port := says(l)
	before := helpers(t)
	options := []string{"--runtime", "oci", "--network", "outbound", "--name", "net"}
	_, server := slurmServer(t, options...)
	id := strings.TrimSpace(expect(t, exitOK, nil, "sbatch", "--parsable", "--wrap", fmt.Sprintf(
		": >begun; until [ -e go ]; do sleep 0.1; done; nc -w 9 %s %s </dev/null >got", host, port)))
	waitForFile(t, "begun")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // v1: its work is that of the task
		eventually(t, func() (counted bool, was any) {
			for at := range helpers(t) {
				group, _ := os.ReadFile(filepath.Join(filepath.Dir(at), "cgroup"))
				counted = counted || !before[at] && strings.Contains(string(group), "/net-")
			}
			return counted, "no slirp4netns is in the control group of the task"
		})
	}
	server.kill()
	must(t, os.WriteFile("go", nil, 0o644))
	waitForFile(t, "got")
	noHelpers(t, before) // before anybody looks after the container
	serveIn(t, os.Getenv("GANTRY_DIR"), options...)
	expect(t, exitOK, nil, "wait", id)
	if got := readAll(t, "got"); got != "from outside\n" {
		t.Errorf("the job read %q", got)
	}
}

// Workflows of all formats may ask for a network, which the command line then gives, or not.
func TestWorkflowsAskForANetwork(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"m.makeflow": "CATEGORY=fetch\nNETWORK=outbound\na:\n\ttrue >a\nCATEGORY=plain\nNETWORK=none\nb:\n\ttrue >b\n",
		"j.jx": `{"rules": [{"command": "true >a", "outputs": ["a"], "resources": {"network": "outbound"}},
			{"command": "true >b", "outputs": ["b"]}]}`,
		"w.json": `{"name": "w", "schemaVersion": "1.4", "workflow": {"tasks": [{"id": "a", "name": "a",
			"command": "true", "network": "outbound"},
			{"id": "b", "name": "b", "command": "true", "network": "none"}]}}`,
		"d.dax": `<adag name="d"><job id="a" name="x"><argument>y</argument><profile namespace="gantry" ` +
			`key="network">outbound</profile></job><job id="b" name="x"/></adag>`,
		"p.yml": "pegasus: '5.0'\nname: p\njobs:\n- {type: job, id: b, name: x}\n" +
			"- {type: job, id: a, name: x, arguments: [y], profiles: {gantry: {network: outbound}}}\n",
		"odd.makeflow": "NETWORK=roads.net\na:\n\ttrue >a\n"})
	runs := "--dir=" + filepath.Join(dir, "runs")
	for _, name := range []string{"m.makeflow", "j.jx", "w.json", "d.dax", "p.yml"} {
		file := filepath.Join(dir, name)
		expect(t, exitOK, []string{"asked for by 1 task: gantry run --network asked"}, "check", file)
		expect(t, exitInput, []string{"task a asks for a network: --network asked"}, "run", runs,
			"--image=gantry/busybox", file)
		expect(t, exitOK, []string{"asked for by 1 task"}, "check", converted(t, file))
	}
	expect(t, exitOK, []string{`NETWORK "roads.net" is neither outbound nor none`}, "check",
		filepath.Join(dir, "odd.makeflow"))
}

// converted is a workflow as gantry writes it.
func converted(t *testing.T, file string) string {
	t.Helper()
	expect(t, exitOK, nil, "convert", "-o", file+".json", file)
	return file + ".json"
}

// Without slirp4netns a run with a network ends before anything starts, or takes Docker.
func TestANetworkWithoutTheProgramForIt(t *testing.T) {
	needsBusybox(t)
	needsOCI(t)
	crun, err := exec.LookPath("crun")
	if err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	must(t, os.Symlink(crun, filepath.Join(bin, "crun")))
	t.Setenv("PATH", bin)
	dir := writeFiles(t, map[string]string{"n.makeflow": "a:\n\ttrue >a\n"})
	file, runs := filepath.Join(dir, "n.makeflow"), "--dir="+filepath.Join(dir, "runs")
	const lacking = "which this host does not have (apt install slirp4netns, or use --runtime docker)"
	expect(t, exitHost, []string{"--network: ", lacking}, "run", runs, "--network=outbound", "--image=gantry/busybox",
		"--runtime=oci", file)
	if left, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "work", "*")); len(left) > 0 {
		t.Errorf("it has begun: %v", left)
	}
	expect(t, exitOK, []string{lacking, "gpus "}, "doctor", "--runtime=oci", runs)
	report := filepath.Join(dir, "report.json") // of a node of Slurm, whose other runtime another option takes
	expect(t, exitOK, nil, "slurm-node", "--runtime=oci", "--network", "--report", report)
	if text, err := os.ReadFile(report); !strings.Contains(string(text), "or use --node-runtime docker)") {
		t.Errorf("a node says %s, %v", text, err)
	}
	noDocker(t)
	expect(t, exitHost, []string{lacking}, "run", runs, "--network=outbound", "--image=gantry/busybox", file)
}
