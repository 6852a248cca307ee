//go:build !linux

package thread

func own() func() { return func() {} }
