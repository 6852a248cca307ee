// Package docker has containers made and run by the Docker Engine of this host.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"gantry/cgroup"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/evidence"
)

// Capabilities are the abilities of this runtime.
var Capabilities = executor.Capabilities{Name: "docker", Does: "containers of the Docker Engine", Programs: true,
	Learns: true, Adopts: true,
	Suspends: true, Checkpoints: true, Attempts: container.AttemptName}

// Connect returns a client of this host's Docker Engine, once it has answered. The error wraps container.ErrUnusable
// and names the remedy.
func Connect(ctx context.Context, host string) (*client.Client, error) {
	return connect(ctx, host, container.DefaultPatience)
}

func connect(ctx context.Context, host string, patience time.Duration) (*client.Client, error) {
	cli, err := newClient(host, patience)
	if err != nil {
		return nil, fmt.Errorf("%w: Docker client: %w (check DOCKER_HOST)", container.ErrUnusable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = cli.Ping(ctx)
	switch {
	case err == nil:
		return cli, nil
	case errors.Is(err, os.ErrPermission) || strings.Contains(err.Error(), "permission denied"):
		err = fmt.Errorf("%w: Docker Engine at %s refuses this user: %w (join the group docker and log in again, or "+
			"use sudo)", container.ErrUnusable, cli.DaemonHost(), err)
	default:
		err = fmt.Errorf("%w: Docker Engine at %s does not answer: %w (%s, or use --runtime oci)",
			container.ErrUnusable, cli.DaemonHost(), err, whereSilent(err))
	}
	cli.Close()
	return nil, err
}

// whereSilent returns the remedy for an engine that does not answer.
func whereSilent(err error) string {
	switch named := os.Getenv("DOCKER_HOST"); {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, container.ErrNoAnswer):
		return "it is stuck: look at its log, and start it again"
	case named != "":
		return "correct or unset DOCKER_HOST, which names it"
	case errors.Is(err, unix.ECONNREFUSED):
		return "it does not run: gantry setup starts it"
	}
	return "gantry setup installs and starts it"
}

// newClient returns a client of the engine at host, or as the environment says.
func newClient(host string, patience time.Duration) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	cli, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, err
	}
	path, local := strings.CutPrefix(cli.DaemonHost(), "unix://")
	if !local {
		return cli, nil
	}
	// the same once more over a transport that does not wait for ever
	cli.Close()
	return client.NewClientWithOpts(append(opts, client.WithHTTPClient(&http.Client{
		Transport: newTransport(path, patience), CheckRedirect: client.CheckRedirect}))...)
}

// Engine is the Docker Engine as a container.Engine.
type Engine struct {
	cli        *client.Client
	patience   time.Duration
	taskBinary string
	podman     bool   // it is Podman, by Host
	runtime    string // of containers, by Host; "": the engine's

	declared sync.Map // volumes of images, map[string]struct{} by the image
	files    sync.Map // of images, *sync.Map by the image: file by the path
}

// Open connects with the Docker Engine at host; "" is as the environment of the Docker client says. TaskBinary is the
// task emulator. Patience is how long the engine may take to answer; 0: container.DefaultPatience.
func Open(ctx context.Context, host, taskBinary string, patience time.Duration) (*Engine, error) {
	patience = cmp.Or(patience, container.DefaultPatience)
	cli, err := connect(ctx, host, patience)
	if err != nil {
		return nil, err
	}
	return &Engine{cli: cli, patience: patience, taskBinary: taskBinary}, nil
}

// New connects with the Docker Engine at host, see Open, and makes the runtime of a run on it.
func New(ctx context.Context, host string, cfg container.Config) (*container.Runtime, error) {
	e, err := Open(ctx, host, cfg.TaskBinary, cfg.Patience)
	if err != nil {
		return nil, err
	}
	return container.New(ctx, e, cfg)
}

// Host asks the engine for its abilities, and refuses an engine that gantry cannot use.
func (e *Engine) Host(ctx context.Context) (container.Host, error) {
	h := container.Host{Teller: evidence.Teller{Engine: "Docker Engine", Command: "docker",
		Ended: "the Docker Engine was stopped"}}
	if host := e.cli.DaemonHost(); !strings.HasPrefix(host, "unix://") {
		return h, fmt.Errorf("%w: Docker Engine at %s: gantry needs the engine of this host, by its unix socket, to "+
			"share directories with it "+
			"and to read its control groups (unset DOCKER_HOST)", container.ErrUnusable, host)
	}
	info, err := e.cli.Info(ctx)
	if err != nil {
		return h, fmt.Errorf("%w: Docker Engine: %w", container.ErrUnusable, err)
	}
	e.name(ctx, &h)
	if _, err = e.cli.NetworkInspect(ctx, "bridge", network.InspectOptions{}); !e.podman && errdefs.IsNotFound(err) {
		h.NoNetwork = "the " + h.Engine + " has no network bridge: it was started without one (dockerd --bridge " +
			"none)"
	}
	h.Version = info.ServerVersion
	h.Systemd, h.LimitsSwap = info.CgroupDriver == "systemd", info.SwapLimit
	h.Hooks = len(info.CDISpecDirs) > 0
	if _, plain := info.Runtimes["runc"]; plain && info.DefaultRuntime == "nvidia" { // which gives GPUs on its own
		e.runtime = "runc"
	}
	h.LimitsTasks = info.MemoryLimit && info.CPUCfsQuota && info.PidsLimit
	h.Facts = []container.Fact{{Name: "docker-engine", Verdict: container.Yes,
		Evidence: fmt.Sprintf("%s, version %s, kernel %s, %d CPUs, %d MB, storage driver %s", h.Engine,
			info.ServerVersion,
			info.KernelVersion, info.NCPU, info.MemTotal/1e6, info.Driver)}}
	if info.OSType != "linux" {
		return h, fmt.Errorf("%w: Docker Engine runs %s containers, gantry needs linux", container.ErrUnusable,
			info.OSType)
	}
	if lacks := container.RootLacks(container.ForFiles...); lacks != nil {
		h.Facts = append(h.Facts, *lacks)
		return h, fmt.Errorf("%w: %s (%s)", container.ErrUnusable, lacks.Evidence, lacks.Advice)
	}
	if e.isRootless(ctx, &info) {
		h.Facts = append(h.Facts, rootlessFact)
		return h, fmt.Errorf("%w: %s (%s)", container.ErrUnusable, rootlessFact.Evidence, rootlessFact.Advice)
	}
	return h, nil
}

// name calls the engine by its name, if it is Podman, which answers as the Docker Engine does.
func (e *Engine) name(ctx context.Context, h *container.Host) {
	v, err := e.cli.ServerVersion(ctx)
	if err == nil && len(v.Components) > 0 && strings.HasPrefix(v.Components[0].Name, "Podman") {
		e.podman, h.Prefix = true, cgroup.Podman
		h.Teller = evidence.Teller{Engine: "Podman", Command: "podman", Ended: "Podman's service was stopped"}
	}
}

// Close ends the connections.
func (e *Engine) Close() error { return e.cli.Close() }

// Away reports whether the engine takes no new connections, as when it shuts down while it still answers on old ones.
func (e *Engine) Away() bool {
	path, _ := strings.CutPrefix(e.cli.DaemonHost(), "unix://")
	c, err := net.DialTimeout("unix", path, 2*time.Second)
	if err != nil {
		return true
	}
	c.Close()
	return false
}

// Unreachable reports whether an error means that the engine is not there, rather than that it refuses.
func (e *Engine) Unreachable(err error) bool {
	var op *net.OpError
	return err != nil && (client.IsErrConnectionFailed(err) || errors.As(err, &op) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNREFUSED) ||
		errors.Is(err, unix.ENOENT) ||
		strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "server closed idle connection"))
}
