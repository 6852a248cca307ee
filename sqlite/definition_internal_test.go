package sqlite

import (
	"encoding/binary"
	"runtime"
	"testing"
)

// A definition may come from a client: what its beginning asks for is not taken before there is data for it.
func TestADefinitionThatClaimsToBeLargeTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, claimed := range []uint64{1 << 20, largestDefinition, 1 << 32} {
		blob := append(binary.AppendUvarint([]byte{s2Magic[0]}, claimed), 0, 0, 0)
		if _, err := decodeAdmission(blob); err == nil {
			t.Errorf("%d bytes that claim to be %d are read", len(blob), claimed)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("it took %d bytes", took)
	}
}
