// Package thread gives work a thread of its own, whose rights, namespaces and priority it may change for good.
package thread

import "runtime"

// The Go runtime ends a thread with the goroutine that is locked to it, but the first thread of a process it parks, and
// gives it to another goroutine later. /proc/self shows the first thread. So the main goroutine keeps it: a program
// does its work in another one (Main).
func init() { runtime.LockOSThread() }

// Main runs a program, and leaves the first thread alone.
func Main(program func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		program()
	}()
	<-done
}

// Go runs f on a thread that ends with it, and is never the first one of the process.
func Go(f func()) {
	go func() {
		runtime.LockOSThread() // and never unlocked
		defer own()()
		f()
	}()
}
