// Package gpu knows the GPUs of this host: devices that files of CDI (the Container Device Interface) describe, which
// vendors' tools write into /etc/cdi and /var/run/cdi.
package gpu

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Edits say how a container gets devices: nodes, mounts, variables and hooks.
type Edits = specs.ContainerEdits

// Host is the devices of this host.
type Host struct {
	dirs  []string
	cache *cdi.Cache
}

// Open reads the files in some directories, of which later ones count above earlier ones; none: those of CDI.
func Open(dirs []string) *Host {
	if len(dirs) == 0 {
		dirs = cdi.DefaultSpecDirs
	}
	cache, _ := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false)) // never fails
	return &Host{dirs, cache}
}

// GPUs lists the names of the GPUs, such as nvidia.com/gpu=0, in the order of their numbers: devices of the class gpu.
// Of several names of one GPU it takes the shortest, and "all" only if there is no other of its vendor.
func (h *Host) GPUs() (names []string) {
	all := h.cache.ListDevices()
	last := func(name string) bool { return strings.HasSuffix(name, "=all") }
	slices.SortStableFunc(all, func(a, b string) int {
		if last(a) != last(b) {
			return map[bool]int{true: 1, false: -1}[last(a)]
		}
		return cmp.Compare(len(a), len(b))
	})
	known := map[string]bool{}
	for _, name := range all {
		vendor, class, _ := parser.ParseDevice(name)
		key := h.Key(name)
		if class != "gpu" || known[key] || last(name) && known[vendor] {
			continue
		}
		known[vendor], known[key] = true, true
		names = append(names, name)
	}
	return names
}

// Key is the same for names of one device; "" if there is no device of that name.
func (h *Host) Key(name string) string {
	d := h.cache.GetDevice(name)
	if d == nil || len(d.ContainerEdits.DeviceNodes) == 0 {
		return map[bool]string{true: name}[d != nil]
	}
	nodes, _ := json.Marshal(d.ContainerEdits.DeviceNodes) // of plain texts and numbers
	return string(nodes)
}

// WhyNone says why there is no GPU, or no more: the first file with a fault, or that there is none.
func (h *Host) WhyNone() string {
	if fault := h.Fault(); fault != "" {
		return fault
	}
	return fmt.Sprintf("no file in %s describes one; nvidia-ctk cdi generate writes one", strings.Join(h.dirs, " or "))
}

// Fault is that of the first file that has one; "" if none has.
func (h *Host) Fault() string {
	faults := h.cache.GetErrors()
	for _, path := range slices.Sorted(maps.Keys(faults)) {
		fault := strings.TrimPrefix(faults[path][0].Error(), "failed to load CDI Spec ")
		return "file " + path + ": " + strings.Join(strings.Fields(fault), " ")
	}
	return ""
}

// Edits returns the edits of a container that gets some devices.
func (h *Host) Edits(names []string) (*Edits, error) {
	edits := &cdi.ContainerEdits{ContainerEdits: &Edits{}}
	files := map[*cdi.Spec]bool{}
	for _, name := range names {
		d := h.cache.GetDevice(name)
		if d == nil {
			return nil, fmt.Errorf("device %s is not there: %s", name, h.WhyNone())
		}
		if of := d.GetSpec(); !files[of] {
			files[of] = true
			edits.Append(&cdi.ContainerEdits{ContainerEdits: &of.ContainerEdits})
		}
		edits.Append(&cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits})
	}
	if edits.IntelRdt != nil || len(edits.NetDevices) > 0 {
		return nil, fmt.Errorf("device %s: its file asks for classes of caches or network devices, which gantry does "+
			"not give", strings.Join(names, ", "))
	}
	return edits.ContainerEdits, nil
}

// Apply makes the edits in the configuration of a container for an OCI runtime.
func Apply(e *Edits, to *oci.Spec) error { return (&cdi.ContainerEdits{ContainerEdits: e}).Apply(to) }

// There fails if a device, a file to mount or the program of a hook is not there.
func There(e *Edits) error {
	for _, m := range e.Mounts {
		if m.Type == "" || m.Type == "bind" {
			if _, err := os.Stat(m.HostPath); err != nil {
				return err
			}
		}
	}
	for _, h := range e.Hooks {
		if _, err := os.Stat(h.Path); err != nil {
			return err
		}
	}
	return Apply(e, &oci.Spec{}) // it looks at the devices
}
