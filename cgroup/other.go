//go:build !linux

package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Functions that need Linux fail elsewhere. Open finds no control groups there, so that none of these is called.

const openPath = 0

func (t *Tree) create(string, Limits) error { return errors.ErrUnsupported }

func forget(string) {}

func (t *Tree) Kill(string) int { return 0 }

type Watcher struct{}

func (t *Tree) NewWatcher(Device, func(Sample)) (*Watcher, error) { return nil, errors.ErrUnsupported }

func (w *Watcher) Watch(int64, string, Set) error           { return errors.ErrUnsupported }
func (w *Watcher) Final(int64) Final                        { return Final{} }
func (w *Watcher) Ends(int64) <-chan struct{}               { return nil }
func (w *Watcher) Status(int64) (s unix.WaitStatus, _ bool) { return s, false }
func (w *Watcher) Over(int64) bool                          { return false }
func (w *Watcher) Close()                                   {}
