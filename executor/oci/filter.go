//go:build linux

package oci

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// shorter returns a filter of system calls, as seccomp(2) takes it, that decides the same in fewer steps: it finds the
// number of a call by halving, where libseccomp compares with one after the other. For each container the kernel
// translates the filter and tries it on every number: that was a thirtieth of what a container costs. A filter that
// does more with the number than compare it is returned as it is.
func shorter(filter []byte) []byte {
	s := shortening{old: make([]unix.SockFilter, len(filter)/8), ids: map[step]int{}, seen: map[point]int{},
		placed: map[int]int{}}
	if len(filter)%8 != 0 || binary.Read(bytes.NewReader(filter), binary.NativeEndian, s.old) != nil {
		return filter
	}
	s.bounds = []uint32{0}
	for _, f := range s.old {
		if compares(f.Code) {
			s.bounds = append(s.bounds, f.K, f.K+1) // after the largest comes 0, which is there
		}
	}
	slices.Sort(s.bounds)
	s.bounds = slices.Compact(s.bounds)
	first, err := s.from(point{})
	if err != nil {
		return filter
	}
	s.place(first)
	slices.Reverse(s.short)
	var b bytes.Buffer
	if len(s.short) >= len(s.old) || binary.Write(&b, binary.NativeEndian, s.short) != nil {
		return filter
	}
	return b.Bytes()
}

// The instructions of the filters that libseccomp makes. A load is of one word of a call; that at 0 is its number.
const (
	load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	mask = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	pass = unix.BPF_RET | unix.BPF_K
	skip = unix.BPF_JMP | unix.BPF_JA
	same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	more = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	most = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
)

func compares(code uint16) bool { return code == same || code == more || code == most }

func holds(code uint16, a, b uint32) bool {
	return code == same && a == b || code == more && a > b || code == most && a >= b
}

type shortening struct {
	old    []unix.SockFilter
	bounds []uint32 // no comparison tells two numbers apart between two of them
	steps  []step
	ids    map[step]int
	seen   map[point]int
	short  []unix.SockFilter // from its end
	placed map[int]int       // where steps are in it
}

// step is an instruction, and the steps after it: for a comparison that which follows where it holds, and that which
// follows else; for a load or a mask the only one. Steps that do the same are one.
type step struct {
	code      uint16
	k         uint32
	next, not int
}

// point is a system call that has come to a place in the old filter.
type point struct {
	at     int
	number uint32
	known  bool // its number; else it may be any
	loaded bool // the number is what the filter looks at
}

var errUnknown = errors.New("no filter of libseccomp")

// add returns the place of a step.
func (s *shortening) add(t step) int {
	id, ok := s.ids[t]
	if !ok {
		id = len(s.steps)
		s.steps, s.ids[t] = append(s.steps, t), id
	}
	return id
}

// from returns what is left to do about a call.
func (s *shortening) from(c point) (id int, err error) {
	if id, ok := s.seen[c]; ok {
		return id, nil
	}
	start := c
	for ; c.at < len(s.old); c.at++ {
		f := s.old[c.at]
		t := step{code: f.Code, k: f.K}
		switch {
		case f.Code == skip:
			c.at += int(f.K)
			continue
		case f.Code == load && f.K == 0 && c.known:
			c.loaded = true
			continue
		case compares(f.Code) && c.loaded:
			if holds(f.Code, c.number, f.K) {
				c.at += int(f.Jt)
			} else {
				c.at += int(f.Jf)
			}
			continue
		case f.Code == pass:
		case f.Code == load && f.K == 0:
			t.next, err = s.search(c.at + 1)
		case f.Code == load, f.Code == mask && !c.loaded:
			t.next, err = s.from(point{c.at + 1, c.number, c.known, false})
		case compares(f.Code):
			t.next, err = s.from(point{c.at + 1 + int(f.Jt), c.number, c.known, false})
			if err == nil {
				t.not, err = s.from(point{c.at + 1 + int(f.Jf), c.number, c.known, false})
			}
		default:
			err = errUnknown
		}
		if err != nil {
			return 0, err
		}
		id = s.add(t)
		if compares(f.Code) && t.next == t.not {
			id = t.next
		}
		s.seen[start] = id
		return id, nil
	}
	return 0, errUnknown
}

// search returns the steps that find what is to be done about the number that was loaded just before a place.
func (s *shortening) search(at int) (int, error) {
	type span struct {
		from uint32
		id   int
	}
	var spans []span
	for _, b := range s.bounds {
		id, err := s.from(point{at, b, true, true})
		if err != nil {
			return 0, err
		}
		if n := len(spans); n == 0 || spans[n-1].id != id {
			spans = append(spans, span{b, id})
		}
	}
	var halve func([]span) int
	halve = func(l []span) int {
		if len(l) == 1 {
			return l[0].id
		}
		half := len(l) / 2
		return s.add(step{code: most, k: l[half].from, next: halve(l[half:]), not: halve(l[:half])})
	}
	return halve(spans), nil
}

// place writes a step, and before it, since the end comes first, those after it. It returns where.
func (s *shortening) place(id int) int {
	if at, ok := s.placed[id]; ok {
		return at
	}
	t := s.steps[id]
	f := unix.SockFilter{Code: t.code, K: t.k}
	switch {
	case compares(t.code):
		not, next := s.place(t.not), s.place(t.next)
		not = s.near(not)
		next = s.near(next)
		f.Jt, f.Jf = uint8(len(s.short)-next-1), uint8(len(s.short)-not-1)
	case t.code != pass:
		if next := s.place(t.next); next != len(s.short)-1 {
			s.leap(next)
		}
	}
	s.short = append(s.short, f)
	s.placed[id] = len(s.short) - 1
	return len(s.short) - 1
}

// near is a place as near as a comparison has to be that comes next or after one more.
func (s *shortening) near(to int) int {
	if len(s.short)-to < 255 {
		return to
	}
	return s.leap(to)
}

// leap writes what leads to a place that may be far.
func (s *shortening) leap(to int) int {
	f := s.short[to]
	if f.Code != pass {
		f = unix.SockFilter{Code: skip, K: uint32(len(s.short) - to - 1)}
	}
	s.short = append(s.short, f)
	return len(s.short) - 1
}
