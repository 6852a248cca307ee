package reader

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// memory keeps the garbage of reading in proportion to the text: the collector, which lets the heap grow to a multiple
// of the live memory, gets a limit that grows with the text.
var memory = struct {
	sync.Mutex
	readers int
	text    int64
	used    int64 // when the first of them began
	limit   int64 // while nothing is read, and at most
}{limit: math.MaxInt64}

const (
	spareBase  = 24 << 20
	spareTimes = 16
)

// SetMemoryLimit is debug.SetMemoryLimit, but while files are read the limit may be lower.
func SetMemoryLimit(bytes int64) (before int64) {
	memory.Lock()
	defer memory.Unlock()
	before = memory.limit
	if bytes >= 0 {
		memory.limit = bytes
		limitMemory()
	}
	return before
}

func limitMemory() {
	limit := memory.limit
	if memory.readers > 0 {
		limit = min(limit, memory.used+spareBase*int64(memory.readers)+spareTimes*memory.text)
	}
	debug.SetMemoryLimit(limit)
}

// spare counts the text that was read into the limit.
func (in *Input) spare() {
	memory.Lock()
	defer memory.Unlock()
	if in.spared < 0 {
		in.spared = 0
		if memory.readers++; memory.readers == 1 {
			s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
			metrics.Read(s)
			memory.used = int64(s[0].Value.Uint64() - s[1].Value.Uint64())
		}
	}
	text := in.counted()
	if in.tree {
		text *= 3
	}
	memory.text += text - in.spared
	in.spared = text
	limitMemory()
}

// Close ends the reading.
func (in *Input) Close() {
	memory.Lock()
	defer memory.Unlock()
	memory.text -= in.spared
	memory.readers--
	limitMemory()
}
