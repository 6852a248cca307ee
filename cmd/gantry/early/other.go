//go:build !linux

package early

import "os"

// No run begins elsewhere: signals end the process as they do by default.

const Stopped = 130

func Begin() {}

func Cancel(func()) (release func()) { return func() {} }

func Wait() {}

func Loop() <-chan os.Signal { return nil }
