//go:build linux

package reuse

import "syscall"

// changed is when an inode was changed last.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
