package oci

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// run returns what a filter decides about a call, and whether it is one that decides.
func run(filter []unix.SockFilter, words [16]uint32) (uint32, bool) {
	var a uint32
	for at := 0; at < len(filter); at++ {
		f := filter[at]
		yes := false
		switch f.Code {
		case load:
			a = words[f.K/4]
			continue
		case mask:
			a &= f.K
			continue
		case skip:
			at += int(f.K)
			continue
		case pass:
			return f.K, true
		case same:
			yes = a == f.K
		case more:
			yes = a > f.K
		case most:
			yes = a >= f.K
		default:
			return 0, false
		}
		if yes {
			at += int(f.Jt)
		} else {
			at += int(f.Jf)
		}
	}
	return 0, false
}

func packed(t *testing.T, filter []unix.SockFilter) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, filter); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t *testing.T, text []byte) []unix.SockFilter {
	t.Helper()
	filter := make([]unix.SockFilter, len(text)/8)
	if err := binary.Read(bytes.NewReader(text), binary.NativeEndian, filter); err != nil {
		t.Fatal(err)
	}
	return filter
}

// drawn is a filter as libseccomp makes them: for each of some architectures a chain of comparisons with the number,
// in which some calls depend on their arguments, after which the chain may go on.
func drawn(r *rand.Rand, numbers uint32) []unix.SockFilter {
	var f []unix.SockFilter
	add := func(code int, jt, jf uint8, k uint32) {
		f = append(f, unix.SockFilter{Code: uint16(code), Jt: jt, Jf: jf, K: k})
	}
	number := func() uint32 {
		if r.IntN(8) == 0 {
			return 0x40000000 + r.Uint32N(numbers)
		}
		return r.Uint32N(numbers)
	}
	inequality := func() int { return []int{same, more, most}[r.IntN(3)] }
	for arch := range 1 + r.Uint32N(3) {
		add(load, 0, 0, 4)
		add(same, 1, 0, arch)
		chain := len(f)
		add(skip, 0, 0, 0) // to the next
		add(load, 0, 0, 0)
		for range r.Uint32N(numbers) {
			switch n := r.IntN(400); {
			case n < 10: // for one call, whose arguments count
				add(same, 0, 5, number())
				add(load, 0, 0, 16+4*r.Uint32N(4))
				add(mask, 0, 0, 1<<r.Uint32N(2))
				add(inequality(), uint8(r.IntN(2)), 0, r.Uint32N(4))
				add(pass, 0, 0, r.Uint32N(3))
				add(load, 0, 0, 0)
			case n == 10:
				add(inequality(), uint8(r.IntN(12)), uint8(r.IntN(2)), number())
			case n < 20:
				add(skip, 0, 0, r.Uint32N(3))
			default:
				add(same, 0, 1, number())
				add(pass, 0, 0, r.Uint32N(3))
			}
		}
		for range 13 { // where the last jumps lead
			add(pass, 0, 0, r.Uint32N(4))
		}
		f[chain].K = uint32(len(f) - chain - 1)
	}
	for range 13 {
		add(pass, 0, 0, r.Uint32N(4))
	}
	return f
}

// A shorter filter decides about every call as the one that it is made of.
func TestAShorterFilterDecidesTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shortened := 0
	for n := range 60 {
		numbers := 1 + r.Uint32N(1200) // many: places that are too far for a comparison
		old := drawn(r, numbers)
		text := packed(t, old)
		short := unpacked(t, shorter(text))
		if len(short) < len(old) {
			shortened++
		}
		calls := []uint32{0x3fffffff, 0x7fffffff, 0x80000000, 0xffffffff}
		for i := range numbers + 1 {
			calls = append(calls, i, 0x40000000+i)
		}
		for arch := range uint32(4) {
			for _, call := range calls {
				words := [16]uint32{0: call, 1: arch}
				for i := 2; i < len(words); i++ {
					words[i] = r.Uint32N(5) * r.Uint32N(1<<r.IntN(32))
				}
				want, ok := run(old, words)
				if got, ok2 := run(short, words); got != want || !ok || !ok2 {
					t.Fatalf("filter %d, call %#x: %d, want %d (%t, %t)\n%v\n%v", n, words, got, want, ok, ok2, old,
						short)
				}
			}
		}
		for at, f := range short { // as the kernel wants them
			if compares(f.Code) && at+1+int(max(f.Jt, f.Jf)) >= len(short) ||
				f.Code == skip && uint64(at)+1+uint64(f.K) >= uint64(len(short)) {
				t.Fatalf("filter %d: instruction %d leads out of it: %v", n, at, f)
			}
		}
	}
	if shortened < 30 {
		t.Errorf("only %d filters became shorter", shortened)
	}
}

// What is not understood stays.
func TestAFilterThatIsNotUnderstoodStays(t *testing.T) {
	for name, filter := range map[string][]unix.SockFilter{
		"nothing":            {},
		"no end":             {{Code: load}},
		"a leap out of it":   {{Code: skip, K: 7}, {Code: pass}},
		"the number masked":  {{Code: load}, {Code: mask, K: 1}, {Code: pass}},
		"another code":       {{Code: unix.BPF_ST}, {Code: pass}},
		"as short as can be": {{Code: pass}},
	} {
		if text := packed(t, filter); !bytes.Equal(shorter(text), text) {
			t.Errorf("%s: %v", name, unpacked(t, shorter(text)))
		}
	}
	if text := []byte("odd"); !bytes.Equal(shorter(text), text) {
		t.Error("odd bytes")
	}
}
