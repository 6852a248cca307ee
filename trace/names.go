package trace

import (
	"slices"

	"gantry/trace/reader"
)

// names has each text of a file once: ids, names of files, and other texts that occur again and again. A text is looked
// up once where it occurs; by its number, the task and the file are found that it names.
type names struct {
	in      *reader.Input    // that they are of
	numbers map[string]int32 // by text
	all     []name           // by number; the first is ""
	others  []string         // texts apart
}

type name struct {
	text       string
	task, file int32 // whose id or name it is; -1: none
	counted    bool  // as kept memory, apart from its task and file
}

func newNames() names {
	return names{numbers: map[string]int32{"": 0}, all: []name{{task: -1, file: -1}}}
}

// number is that of a text.
func (ns *names) number(text string) int32 {
	n, ok := ns.numbers[text]
	if !ok {
		n = ns.add(text)
	}
	return n
}

// numberOf is number of a text that the caller will overwrite.
func (ns *names) numberOf(text []byte) int32 {
	n, ok := ns.numbers[string(text)]
	if !ok {
		n = ns.add(string(text))
	}
	return n
}

func (ns *names) add(text string) int32 {
	n := int32(len(ns.all))
	ns.all = append(grown(ns.in, ns.all), name{text: text, task: -1, file: -1})
	ns.numbers[text] = n
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

// grown makes room for one more, and for as many as the rest of the file lets expect: copying costs more than most
// other work on them.
func grown[T any](in *reader.Input, s []T) []T {
	if n := len(s); n == cap(s) {
		s = slices.Grow(s, max(16, in.Expect(n)-n))
	}
	return s
}

func (ns *names) taskOf(id string) (int32, bool) {
	if n, ok := ns.numbers[id]; ok {
		return ns.all[n].task, ns.all[n].task >= 0
	}
	return -1, false
}

func (ns *names) fileOf(name string) (int32, bool) {
	if n, ok := ns.numbers[name]; ok {
		return ns.all[n].file, ns.all[n].file >= 0
	}
	return -1, false
}
