package trace

import (
	"hash/maphash"
	"slices"
	"strings"
	"unsafe"

	"gantry/trace/reader"
)

// names has each text of a file once: ids, names of files, and other texts that occur again and again. A text is looked
// up once where it occurs; by its number, the task and the file are found that it names.
type names struct {
	in     *reader.Input // that they are of
	seed   maphash.Seed
	slots  []slot          // by hash, open addressing; as many as a power of two, at most half of them taken
	all    []name          // by number; the first is "", which has no slot
	others []string        // texts apart
	piece  strings.Builder // of memory
}

// slot says where a text is. A map has its texts beside it, so that most lookups wait for memory.
type slot struct {
	hash   uint32
	number int32 // 0: none
}

type name struct {
	text       string
	task, file int32 // whose id or name it is; -1: none
	counted    bool  // as kept memory, apart from its task and file
}

func newNames() names {
	return names{seed: maphash.MakeSeed(), slots: make([]slot, 16), all: []name{{task: -1, file: -1}}}
}

// find is the number of a text, if it has one, and the hash of the text.
func (ns *names) find(text string) (n int32, hash uint32, ok bool) {
	if text == "" {
		return 0, 0, true
	}
	hash = uint32(maphash.String(ns.seed, text))
	mask := uint32(len(ns.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s := ns.slots[i]; {
		case s.number == 0:
			return 0, hash, false
		case s.hash == hash && ns.all[s.number].text == text:
			return s.number, hash, true
		}
	}
}

// put takes a slot.
func put(slots []slot, s slot) {
	mask := uint32(len(slots) - 1)
	i := s.hash & mask
	for slots[i].number != 0 {
		i = (i + 1) & mask
	}
	slots[i] = s
}

// borrowed is a text that is not kept.
func borrowed(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// number is that of a text.
func (ns *names) number(text string) int32 {
	n, hash, ok := ns.find(text)
	if !ok {
		n = ns.add(text, hash)
	}
	return n
}

// numberOf is number of a text that the caller will overwrite.
func (ns *names) numberOf(text []byte) int32 {
	n, hash, ok := ns.find(borrowed(text))
	if !ok {
		n = ns.add(ns.copied(text), hash)
	}
	return n
}

// guess is where a text is looked for before all others are: files tell of tasks and files again and again in the same
// order.
type guess struct{ last, step int32 }

// found is the number of a text, if it has one. The guess is tried first.
func (ns *names) found(g *guess, text []byte) (n int32, ok bool) {
	n, _, ok = ns.foundOrHash(g, text)
	return n, ok
}

func (ns *names) foundOrHash(g *guess, text []byte) (n int32, hash uint32, ok bool) {
	n = g.last + g.step
	if uint32(n) >= uint32(len(ns.all)) || ns.all[n].text != string(text) {
		if n, hash, ok = ns.find(borrowed(text)); !ok {
			return 0, hash, false
		}
		g.step = n - g.last
	}
	g.last = n
	return n, hash, true
}

// numberNear is numberOf that tries the guess first.
func (ns *names) numberNear(g *guess, text []byte) int32 {
	n, hash, ok := ns.foundOrHash(g, text)
	if !ok {
		n = ns.add(ns.copied(text), hash)
		g.step, g.last = n-g.last, n
	}
	return n
}

func (ns *names) add(text string, hash uint32) int32 {
	n := int32(len(ns.all))
	ns.all = append(grown(ns.in, ns.all), name{text: text, task: -1, file: -1})
	if 2*int(n) > len(ns.slots) {
		more := make([]slot, 4*len(ns.slots))
		for _, s := range ns.slots {
			if s.number != 0 {
				put(more, s)
			}
		}
		ns.slots = more
	}
	put(ns.slots, slot{hash, n})
	return n
}

// apart is a number, below 0, of a text that names nothing and is not looked for; 0 of "".
func (ns *names) apart(text string) int32 {
	if text == "" {
		return 0
	}
	ns.others = append(grown(ns.in, ns.others), text)
	return -int32(len(ns.others))
}

// text is that of a number.
func (ns *names) text(n int32) string {
	if n < 0 {
		return ns.others[-n-1]
	}
	return ns.all[n].text
}

// copied is a copy of a text, many of which lie in one piece of memory.
func (ns *names) copied(text []byte) string {
	const size = 8 << 10
	if len(text) > size/8 {
		return string(text)
	}
	if ns.piece.Len()+len(text) > ns.piece.Cap() {
		ns.piece = strings.Builder{}
		ns.piece.Grow(size)
	}
	from := ns.piece.Len()
	ns.piece.Write(text)
	return ns.piece.String()[from:]
}

// grown makes room for one more, and for as many as the rest of the file lets expect: copying costs more than most
// other work on them.
func grown[T any](in *reader.Input, s []T) []T {
	if n := len(s); n == cap(s) {
		s = slices.Grow(s, max(16, in.Expect(n)-n))
	}
	return s
}

// taskOf is the task that has an id.
func (ns *names) taskOf(id string) (int32, bool) {
	if n, _, ok := ns.find(id); ok {
		return ns.all[n].task, ns.all[n].task >= 0
	}
	return -1, false
}

// fileOf is the file that has a name.
func (ns *names) fileOf(name string) (int32, bool) {
	if n, _, ok := ns.find(name); ok {
		return ns.all[n].file, ns.all[n].file >= 0
	}
	return -1, false
}
