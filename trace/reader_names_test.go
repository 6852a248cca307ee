package trace

import "gantry/trace/reader"

// Names of package reader that tests use.
type Severity = reader.Severity

const Warning = reader.Warning

func HasErrors(faults []Fault) bool { return reader.HasErrors(faults) }
