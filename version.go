// Package release has the number of this version.
package release

import _ "embed"

// Version is the number, as the file VERSION has it, with the end of its line.
//
//go:embed VERSION
var Version string
