//go:build linux

package oci

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gantry/executor/container"
)

// A container with a network has a namespace of its own, whose only way out is slirp4netns: a process of this host that
// takes packets from a device there, and makes connections of its own. It ends when nobody holds a pipe any more, whose
// last holder is the launcher: with the container, also where gantry was killed.

const slirp = "slirp4netns"

// NoNetwork says why containers can have no network here; "" if they can.
func NoNetwork() string {
	if _, err := exec.LookPath(slirp); err != nil {
		return "containers without a daemon get a network by " + slirp + ", which this host does not have (apt " +
			"install " + slirp + ", or use --runtime docker)"
	}
	tun, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return "containers without a daemon get a network by the device tun: " + err.Error() + " (modprobe tun, or " +
			"use --runtime docker)"
	}
	tun.Close()
	return ""
}

// networkFiles are those of a container with a network: slirp4netns asks the servers of this host for names.
func networkFiles(host string) map[string]string {
	servers := "nameserver 10.0.2.3\n"
	text, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "search") || strings.HasPrefix(line, "options") {
			servers += line
		}
	}
	return map[string]string{"resolv.conf": servers, "hosts": "127.0.0.1\tlocalhost " + host + "\n"}
}

// connect makes the network of a container, to which the file "net" of its directory leads on this thread until undo.
// The network is there as long as somebody holds alive, by the process helper. Below the mount, the file has the
// messages of slirp4netns.
func connect(dir string) (alive *os.File, helper int, undo func(), err error) {
	at := filepath.Join(dir, "net")
	said, err := os.Create(at)
	if err != nil {
		return nil, 0, nil, err
	}
	defer said.Close()
	var ns *os.File
	if err := (inside{}).do(func() (err error) { ns, err = closedNetwork(); return err }); err != nil {
		return nil, 0, nil, err
	}
	defer ns.Close()
	ready, tells, err := os.Pipe()
	if err != nil {
		return nil, 0, nil, err
	}
	defer ready.Close()
	over, alive, err := os.Pipe()
	if err != nil {
		tells.Close()
		return nil, 0, nil, err
	}
	c := exec.Command(slirp, "--configure", "--mtu=65520", "--disable-host-loopback", "--enable-sandbox",
		"--enable-seccomp", "--ready-fd=3", "--exit-fd=4", "--netns-type=path", "/proc/self/fd/5", device)
	c.Dir, c.Env, c.Stdout, c.Stderr = "/", []string{defaultPath}, said, said
	c.ExtraFiles, c.SysProcAttr = []*os.File{tells, over, ns}, &syscall.SysProcAttr{Setsid: true}
	// In a mount namespace of its own: for its sandbox slirp4netns unmounts all that it does not need, and where mounts
	// are shared they would go from the host, too.
	err = inside{}.do(c.Start)
	tells.Close()
	over.Close()
	if err == nil {
		go func() { _ = c.Wait() }()
		_ = ready.SetReadDeadline(time.Now().Add(container.DefaultPatience))
		if _, e := ready.Read(make([]byte, 1)); e != nil {
			text, _ := os.ReadFile(at)
			err = fmt.Errorf("%s: %w: %s", slirp, e, lastLine(string(text)))
		}
	}
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()), at, "", unix.MS_BIND, "")
	}
	if err != nil {
		alive.Close()
		return nil, 0, nil, err
	}
	return alive, c.Process.Pid, func() {
		alive.Close()
		_ = unix.Unmount(at, unix.MNT_DETACH)
	}, nil
}

// device is that of slirp4netns in the network namespace of a container.
const device = "tap0"

// closedNetwork makes a network namespace for this thread, in which nothing leads to an address of this host, nor to
// many hosts at once.
func closedNetwork() (*os.File, error) {
	routes, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, unix.AF_INET)
	messages, err2 := syscall.ParseNetlinkMessage(routes)
	if err = errors.Join(err, err2); err == nil {
		err = unix.Unshare(unix.CLONE_NEWNET)
	}
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	for i := range messages {
		if err := refuseAddress(&messages[i]); err != nil {
			return nil, fmt.Errorf("network namespace: routes: %w", err)
		}
	}
	if err := makeDevice(); err != nil {
		return nil, fmt.Errorf("network namespace: device %s: %w", device, err)
	}
	return os.Open("/proc/thread-self/ns/net")
}

// makeDevice makes the device, which slirp4netns finds there. It takes packets to slirp4netns, and to all, by which it
// is found, but none to a group (multicast), which services of this host may hear.
func makeDevice() error {
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(tun)
	request, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, request); err != nil {
		return err
	}
	filter := struct { // tun_filter
		flags, count uint16
		to           [3][6]byte // 10.0.2.2 and 10.0.2.3
	}{0, 3, [...][6]byte{{255, 255, 255, 255, 255, 255}, {0x52, 0x55, 10, 0, 2, 2}, {0x52, 0x55, 10, 0, 2, 3}}}
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(tun), unix.TUNSETTXFILTER,
		uintptr(unsafe.Pointer(&filter))); code != 0 {
		return code
	}
	return unix.IoctlSetInt(tun, unix.TUNSETPERSIST, 1)
}

// refuseAddress adds a route, in the network namespace of this thread, by which the kernel refuses the addresses of a
// route of this host that leads to itself, or to all hosts beside it.
func refuseAddress(own *syscall.NetlinkMessage) error {
	var request struct {
		unix.NlMsghdr
		unix.RtMsg
		unix.RtAttr
		To [4]byte
	}
	request.NlMsghdr = unix.NlMsghdr{Len: uint32(binary.Size(request)), Type: unix.RTM_NEWROUTE,
		Flags: unix.NLM_F_REQUEST | unix.NLM_F_CREATE | unix.NLM_F_REPLACE | unix.NLM_F_ACK}
	if own.Header.Type != unix.RTM_NEWROUTE {
		return nil
	}
	if _, err := binary.Decode(own.Data, binary.NativeEndian, &request.RtMsg); err != nil {
		return err
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(own)
	if err != nil {
		return err
	}
	to := slices.IndexFunc(attributes, func(a syscall.NetlinkRouteAttr) bool { return a.Attr.Type == unix.RTA_DST })
	leads := []uint8{unix.RTN_LOCAL, unix.RTN_BROADCAST}
	if to < 0 || !slices.Contains(leads, request.RtMsg.Type) {
		return nil
	}
	request.RtMsg = unix.RtMsg{Family: unix.AF_INET, Dst_len: request.Dst_len, Table: unix.RT_TABLE_MAIN,
		Protocol: unix.RTPROT_STATIC, Type: unix.RTN_UNREACHABLE}
	request.RtAttr = unix.RtAttr{Len: 8, Type: unix.RTA_DST}
	copy(request.To[:], attributes[to].Value)
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	text, err := binary.Append(nil, binary.NativeEndian, request)
	if err == nil {
		err = unix.Sendto(s, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	answer := make([]byte, 1024)
	if err == nil {
		_, _, err = unix.Recvfrom(s, answer, 0)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); err == nil && code != 0 {
		err = unix.Errno(-code)
	}
	return err
}
