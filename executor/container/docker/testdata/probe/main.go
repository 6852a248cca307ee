// Command probe prints the things that a program can see and do where it runs: a line for each fact,
// "SUBJECT: FINDING". It changes nothing outside of itself.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var out = bufio.NewWriter(os.Stdout)

func say(subject, format string, args ...any) {
	finding := fmt.Sprintf(format, args...)
	fmt.Fprintf(out, "%s: %s\n", subject, strings.ReplaceAll(finding, "\n", " | "))
}

func main() {
	runtime.LockOSThread()
	defer out.Flush()
	descriptors()
	process()
	files()
	mounts()
	kernel()
	escapes()
	out.Flush()
	calls()
}

// outcome is the name of an error number.
func outcome(err error) string {
	var e unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return unix.ErrnoName(e)
	}
	return err.Error()
}

func descriptors() {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, d := range list {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && !strings.HasPrefix(to, "/proc/") {
			say("descriptor "+d.Name(), "%s", to)
		}
	}
}

// process prints the contents of /proc for this process and for the container's first.
func process() {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "Umask", "TracerPid", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
			"NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn", "SigBlk", "Speculation_Store_Bypass",
			"Cpus_allowed", "Mems_allowed", "CoreDumping", "THP_enabled", "SpeculationIndirectBranch", "Pid", "PPid",
			"NSpid":
			say("status "+name, "%s", strings.Join(strings.Fields(value), " "))
		}
	}
	for _, name := range []string{"oom_score_adj", "loginuid", "sessionid", "setgroups", "uid_map", "gid_map",
		"attr/current", "coredump_filter", "personality", "timerslack_ns", "autogroup", "limits", "cgroup"} {
		text, err := os.ReadFile("/proc/self/" + name)
		if name == "limits" {
			for line := range strings.Lines(string(text)) {
				if len(line) > 60 {
					say("limit "+strings.TrimSpace(line[:26]), "%s", strings.Join(strings.Fields(line[26:]), " "))
				}
			}
			continue
		}
		say("self "+name, "%s %s", strings.Join(strings.Fields(string(text)), " "), outcome(err))
	}
	for _, name := range []string{"environ", "mem", "maps", "root", "cwd", "exe", "fd", "io", "stack", "syscall"} {
		_, err := os.Open("/proc/1/" + name)
		say("first process "+name, "%s", outcome(err))
	}
	for _, e := range os.Environ() {
		name, value, _ := strings.Cut(e, "=")
		say("environment "+name, "%s", value)
	}
	host, err := os.Hostname()
	say("hostname", "%s %s", host, outcome(err))
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	say("priority", "%d %s", nice, outcome(err))
	policy, _, _ := unix.Syscall(unix.SYS_SCHED_GETSCHEDULER, 0, 0, 0)
	say("scheduler", "%d", policy)
	io, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, 1, 0, 0)
	say("I/O priority", "%d", io)
	sid, _ := unix.Getsid(0)
	say("session", "%d, group %d, process %d of %d", sid, unix.Getpgrp(), os.Getpid(), os.Getppid())
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"} {
		to, err := os.Readlink("/proc/self/ns/" + ns)
		say("namespace "+ns, "%s %s", to, outcome(err))
	}
	dir, _ := os.Getwd()
	say("directory", "%s", dir)
	list, err := net.Interfaces()
	for _, i := range list {
		say("network "+i.Name, "%s mtu %d", i.Flags, i.MTU)
	}
	say("networks", "%d %s", len(list), outcome(err))
	_, err = net.Dial("udp", "192.0.2.1:9")
	var e *net.OpError
	say("route", "%v", errors.As(err, &e))
}

// describe is the type, permissions, owner and device of a file, and whether it can be read and written.
func describe(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return outcome(err)
	}
	text := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		text += fmt.Sprintf(" device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	case unix.S_IFLNK:
		to, _ := os.Readlink(path)
		return "link " + to
	case unix.S_IFIFO, unix.S_IFSOCK:
		return text
	}
	try := func(flags int) string {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return outcome(err)
	}
	text += " read " + try(unix.O_RDONLY)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return text + " write " + outcome(unix.Access(path, unix.W_OK))
	}
	return text + " write " + try(unix.O_WRONLY)
}

func files() {
	walk := func(root string, depth int, skip func(path string) bool) {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if skip != nil && skip(path) {
				return fs.SkipDir
			}
			if err == nil || d != nil {
				say("file "+path, "%s", describe(path))
			}
			if d != nil && d.IsDir() && strings.Count(strings.TrimPrefix(path, root), "/") >= depth {
				return fs.SkipDir
			}
			return nil
		})
	}
	number := func(path string) bool {
		name := strings.TrimPrefix(path, "/proc/")
		return name != "" && strings.Trim(name, "0123456789") == ""
	}
	walk("/proc", 1, number)
	walk("/proc/sys", 9, nil)
	walk("/proc/fs", 2, nil)
	walk("/proc/irq", 1, nil)
	walk("/proc/bus", 2, nil)
	walk("/sys", 2, nil)
	walk("/sys/fs/cgroup", 2, func(path string) bool { return strings.Contains(path, "/gantry") })
	walk("/sys/devices/virtual", 2, func(path string) bool {
		return strings.HasPrefix(path, "/sys/devices/virtual/block")
	})
	walk("/dev", 3, nil)
	list, _ := os.ReadDir("/")
	for _, d := range list {
		say("file /"+d.Name(), "%s", describe("/"+d.Name()))
	}
	walk("/etc", 1, nil)
	walk("/run", 2, nil)
	walk("/tmp", 1, nil)
	for _, path := range []string{"/", "/.dockerenv", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"} {
		say("file "+path, "%s", describe(path))
	}
	for _, path := range []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/own"} {
		text, err := os.ReadFile(path)
		say("content "+path, "%q %s", text, outcome(err))
	}
	for _, name := range []string{"net/ipv4/ip_unprivileged_port_start", "net/ipv4/ping_group_range", "kernel/shmmax",
		"kernel/msgmax", "kernel/sem", "fs/mqueue/queues_max", "kernel/domainname", "net/ipv4/ip_forward",
		"net/ipv6/conf/all/disable_ipv6", "vm/overcommit_memory", "kernel/pid_max"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		say("setting "+name, "%s %s", strings.Join(strings.Fields(string(text)), " "), outcome(err))
	}
}

func mounts() {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	var lines []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		at := slices.Index(f, "-")
		if at < 6 || len(f) < at+4 {
			continue
		}
		kind := f[at+1]
		super := f[at+3]
		if kind == "overlay" {
			super = strings.SplitN(super, ",", 2)[0] // the rest are directories of the host
		}
		lines = append(lines, fmt.Sprintf("mount %s: %s %s %s root %s shared %q", f[4], kind, f[5], super, f[3],
			strings.Join(f[6:at], " ")))
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Fprintln(out, l)
	}
}

func kernel() {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	say("keyring", "%s", outcome(err))
	for _, s := range []struct {
		name         string
		family, kind int
	}{{"unix", unix.AF_UNIX, unix.SOCK_STREAM}, {"inet", unix.AF_INET, unix.SOCK_STREAM}, {"inet6", unix.AF_INET6,
		unix.SOCK_STREAM}, {"raw", unix.AF_INET, unix.SOCK_RAW}, {"ping", unix.AF_INET, unix.SOCK_DGRAM},
		{"netlink", unix.AF_NETLINK, unix.SOCK_RAW}, {"packet", unix.AF_PACKET, unix.SOCK_RAW},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM}, {"alg", unix.AF_ALG, unix.SOCK_SEQPACKET},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW}, {"can", unix.AF_CAN, unix.SOCK_RAW}} {
		fd, err := unix.Socket(s.family, s.kind, 0)
		if err == nil {
			unix.Close(fd)
		}
		say("socket "+s.name, "%s", outcome(err))
	}
	for _, p := range []uintptr{0, 8, 0x20000, 0x20008, 0x0040000, 0xffffffff} {
		was, _, _ := unix.RawSyscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
		_, _, e := unix.RawSyscall(unix.SYS_PERSONALITY, p, 0, 0)
		unix.RawSyscall(unix.SYS_PERSONALITY, was, 0, 0)
		say(fmt.Sprintf("personality %#x", p), "%s", name(e))
	}
}

func name(e unix.Errno) string {
	if e == 0 {
		return "ok"
	}
	return unix.ErrnoName(e)
}

// escapes are ways out that must be shut.
func escapes() {
	try := func(what string, err error) { say("try "+what, "%s", outcome(err)) }
	try("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	try("remount /", unix.Mount("none", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	try("unmount", unix.Unmount("/proc/sys", unix.MNT_DETACH))
	try("mknod", unix.Mknod("/tmp/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))))
	try("unshare user", unix.Unshare(unix.CLONE_NEWUSER))
	try("unshare mount", unix.Unshare(unix.CLONE_NEWNS))
	try("chroot", unix.Chroot("/tmp"))
	try("pivot_root", unix.PivotRoot("/tmp", "/tmp"))
	try("setuid 0", unix.Setuid(0))
	try("setgroups", unix.Setgroups([]int{0}))
	try("sethostname", unix.Sethostname([]byte("x")))
	try("settime", unix.ClockSettime(unix.CLOCK_REALTIME, &unix.Timespec{Sec: -1}))
	try("ptrace first process", unix.PtraceAttach(1))
	say("signal to the first process", "%s", outcome(unix.Kill(1, 0)))
	try("host root", func() error { _, err := os.ReadDir("/proc/1/root/"); return err }())
	try("write cgroup", os.WriteFile("/sys/fs/cgroup/memory/memory.limit_in_bytes", []byte("-1"), 0))
	try("write cgroup2", os.WriteFile("/sys/fs/cgroup/memory.max", []byte("max"), 0))
	try("make cgroup", os.Mkdir("/sys/fs/cgroup/memory/x", 0o755))
	try("write core_pattern", os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/x"), 0))
	try("write sysrq", os.WriteFile("/proc/sysrq-trigger", []byte("?"), 0))
	try("write root", os.WriteFile("/escape", []byte("x"), 0o644))
	try("lower oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0))
	try("device memory", func() error { _, err := os.Open("/dev/mem"); return err }())
	try("raise priority", unix.Setpriority(unix.PRIO_PROCESS, 0, -5))
	_, _, e := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS, 0, 0, 0, 0, 0) // never valid
	say("try clone user", "%s", name(e))
	_, _, e = unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	say("try clone3", "%s", name(e))
	fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
	if err == nil {
		unix.Close(fd)
	}
	say("terminal", "%s", outcome(err))
}

// calls tries system calls with arguments that no kernel takes: a filter answers before the kernel looks at them.
func calls() {
	if runtime.GOARCH != "amd64" {
		return
	}
	skip := []int{unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CLONE, unix.SYS_PAUSE,
		unix.SYS_RT_SIGRETURN, unix.SYS_SYNC, unix.SYS_UMASK, unix.SYS_SET_TID_ADDRESS, unix.SYS_RESTART_SYSCALL}
	none := ^uintptr(0)
	for nr := range 480 {
		if nr > 334 && nr < 424 || slices.Contains(skip, nr) {
			continue
		}
		_, _, e := unix.RawSyscall6(uintptr(nr), none, none, none, none, none, none)
		fmt.Fprintf(out, "system call %d: %s\n", nr, name(e))
		out.Flush()
	}
}
