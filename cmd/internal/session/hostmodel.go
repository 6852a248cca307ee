package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/disk"

	release "gantry"
	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/term"
	"gantry/executor/container"
	"gantry/executor/sim/hostmodel"
	"gantry/sqlite"
)

// hereWithout describes this host, but for the engine of containers, which has to be asked.
func hereWithout(runtime, dir string) hostmodel.Host {
	f := HostFacts()
	h := hostmodel.Host{Name: f.Name, Architecture: f.Architecture, Kernel: f.Release, Runtime: runtime, Cores: f.Cores,
		MemoryBytes: int64(f.Memory), FileSystem: fileSystem(dir), Gantry: release.Build(), CgroupVersion: 1}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		h.CgroupVersion = 2
	}
	return h
}

// Here describes this host with a runtime whose run directories lie below dir.
func Here(ctx context.Context, runtime, dir string) (hostmodel.Host, error) {
	h := hereWithout(runtime, dir)
	row := RuntimeNamed(runtime)
	if row == nil || row.Engine == nil {
		return h, exit.Usagef("--runtime %s: it has no containers, so there is nothing to measure", runtime)
	}
	made, err := row.Engine.host(ctx, EngineWants{})
	h.Engine, h.EngineVersion = made.Engine, made.Version
	return h, exit.Or(exit.Host, err)
}

// fileSystem is the type of the file system of dir, or of the directory that it will be made in; "" if that cannot be
// read.
func fileSystem(dir string) string {
	dir, err := filepath.EvalSymlinks(existing(dir))
	if err != nil {
		return ""
	}
	// Those of this process, not of the first one.
	own := common.EnvMap{"HOST_PROC_MOUNTINFO": "/proc/self/mountinfo"}
	ctx := context.WithValue(context.Background(), common.EnvKey, own)
	mounts, _ := disk.PartitionsWithContext(ctx, true)
	longest, kind := -1, ""
	for _, m := range mounts {
		if container.Inside(dir, m.Mountpoint) && len(m.Mountpoint) >= longest {
			longest, kind = len(m.Mountpoint), m.Fstype
		}
	}
	return kind
}

// FindHostModel returns the host model of the log that a runtime here has: the newest that was measured on this host.
// Its error wraps hostmodel.ErrNone, ErrForeign, ErrDamaged or ErrOld if there is no usable one, and has advice.
func FindHostModel(ctx context.Context, db *sqlite.DB, runtime, dir string) (*hostmodel.Model, *sqlite.HostModel,
	error) {
	rows, err := db.HostModels(ctx, runtime)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, hostmodel.ErrNone
	}
	// The newest of this host counts, also where the log has newer ones of others; the engine is asked last, as that
	// takes longest.
	at, first := hereWithout(runtime, dir), error(nil)
	for i := range rows {
		m, err := decodeHostModel(&rows[i])
		if err == nil {
			err = m.Fits(at)
		}
		if err == nil && at.Engine == "" {
			if full, e := Here(ctx, runtime, dir); e == nil { // else nobody knows: it is taken for the same
				at = full
				err = m.Fits(at)
			}
		}
		if age := time.Since(rows[i].Created); err == nil && age > old {
			err = fmt.Errorf("%w: it was measured %s ago: run gantry calibrate", hostmodel.ErrOld,
				units.HumanDuration(age))
		}
		if err == nil {
			return m, &rows[i], nil
		}
		first = cmp.Or(first, err)
	}
	return nil, &rows[0], first
}

// StoredHostModel is the model that the log below home has of this host with a runtime. Of a simulation it is that with
// the runtime of the run that it takes the measurements of, if one is named; else with the one that runs usually take,
// or with any other if that was never measured.
func StoredHostModel(ctx context.Context, home, runtime, measured string) (m *hostmodel.Model, err error) {
	db, err := readLog(home)
	if err != nil {
		return nil, hostmodel.ErrNone // of an older format, for one: a later reader says so
	}
	defer db.Close()
	names := []string{runtime}
	if Capabilities(runtime).Virtual {
		names = append([]string{UsualRuntime.Name}, RuntimeNames(MakesContainers)...)
		if info, err := db.Info(ctx, measured); measured != "" && err == nil { // else a later reader says so
			names = []string{info.Runtime}
		}
	}
	for _, name := range names {
		if m, _, err = FindHostModel(ctx, db, name, home); !errors.Is(err, hostmodel.ErrNone) {
			break
		}
	}
	return m, err
}

// mostEarlier is how many earlier calibrations say how steady a host is.
const mostEarlier = 8

// earlierHostModels returns earlier models of a host, the latest first. Unusable ones are left out.
func earlierHostModels(ctx context.Context, db *sqlite.DB, host *hostmodel.Host) (all []*hostmodel.Model, err error) {
	rows, err := db.HostModels(ctx, host.Runtime)
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	for i := range rows {
		if m, err := decodeHostModel(&rows[i]); err == nil && m.Fits(*host) == nil && len(all) < mostEarlier {
			all = append(all, m)
		}
	}
	return all, nil
}

// decodeHostModel reads the model of a row, and checks that it describes the host of the row.
func decodeHostModel(row *sqlite.HostModel) (*hostmodel.Model, error) {
	if row.Damaged != nil {
		return nil, fmt.Errorf("%w: row %d of host_models: %w", hostmodel.ErrDamaged, row.ID, row.Damaged)
	}
	m, err := hostmodel.Decode(row.Model)
	if err != nil {
		return nil, err
	}
	if h := &m.Host; h.Name != row.Host || h.Kernel != row.Kernel || h.Runtime != row.Runtime || h.Cores != row.Cores {
		return nil, fmt.Errorf("%w: row %d of host_models describes %s, kernel %s, but its model %s, kernel %s: run "+
			"gantry calibrate", hostmodel.ErrDamaged, row.ID, row.Host, row.Kernel, h.Name, h.Kernel)
	}
	return m, nil
}

// KeepHostModel stores a model that was just measured.
func KeepHostModel(ctx context.Context, db *sqlite.DB, m *hostmodel.Model) (*sqlite.HostModel, error) {
	text, err := m.Encode()
	if err != nil {
		return nil, exit.With(exit.Host, err)
	}
	h := &m.Host
	row := &sqlite.HostModel{Runtime: h.Runtime, Host: h.Name, Kernel: h.Kernel,
		Engine: strings.TrimSpace(h.Engine + " " + h.EngineVersion), Cores: h.Cores, Gantry: h.Gantry,
		Created: m.Measured.At, Busy: m.Measured.BusyCores, Model: text}
	return row, db.KeepHostModel(ctx, row)
}

// old is the age from which a model is not used: kernels, engines and neighbours change.
const old = 90 * 24 * time.Hour

const (
	NotMeasured     = "this host was not measured yet"
	CalibrateAdvice = "gantry calibrate measures it, for predictions; it takes about a minute"
)

// DescribeHostModel describes in one line the model in the log for a runtime here; used reports whether gantry uses it.
func DescribeHostModel(ctx context.Context, db *sqlite.DB, runtime, dir string) (used bool, text, advice string) {
	m, row, err := FindHostModel(ctx, db, runtime, dir)
	switch {
	case errors.Is(err, hostmodel.ErrNone):
		return false, NotMeasured, CalibrateAdvice
	case err != nil:
		return false, "not used: " + err.Error(), "gantry calibrate measures this host again"
	}
	text = fmt.Sprintf("%s with %s, kernel %s, %s; measured %s ago", row.Host, term.Plural(row.Cores, "core"),
		row.Kernel, row.Engine, units.HumanDuration(time.Since(row.Created)))
	if len(m.Measured.Warnings) > 0 {
		advice = strings.Join(m.Measured.Warnings, "; ") + ": intervals are wider; calibrate again on a host at rest"
	}
	return true, text, advice
}
