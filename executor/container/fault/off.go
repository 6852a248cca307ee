//go:build !fault

// Package fault lets a test end gantry at a chosen moment. Binaries that are built with the tag "fault" read the
// environment variable GANTRY_FAULT; in all others the package does nothing.
package fault

// Do performs an effect: a change that outlives this process.
func Do(_ string, effect func() error) error { return effect() }
