package planner

import (
	"encoding/binary"
	"unsafe"
)

// packed is rows of numbers by columns of 32 bits, each with as few bytes as its range needs: most members of ended
// tasks are alike. It has no pointers, so that the garbage collector need not look at it.
type packed struct {
	data []byte   // the columns, one after the other
	base []uint32 // by column: its least number
	size []uint8  // by column: bytes of a number less its base, 0, 1, 2 or 4
	rows int
}

// words is the memory of a list of structs without pointers, whose size is a multiple of that of a word.
func words[T any](s []T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])/unsafe.Sizeof(uint64(0))))
}

// pack takes in all words of a number of rows.
func pack(all []uint64, rows int) packed {
	n := len(all) / rows
	p := packed{base: make([]uint32, 2*n), size: make([]uint8, 2*n), rows: rows}
	bytes := 0
	for w, first := range all[:n] {
		differs := uint64(0)
		for i := w; i < len(all); i += n {
			differs |= all[i] ^ first
		}
		for c := 2 * w; c < 2*w+2; c++ {
			shift := c % 2 * 32
			p.base[c] = uint32(first >> shift)
			if uint32(differs>>shift) == 0 {
				continue // most columns
			}
			least, most := p.base[c], p.base[c]
			for i := w; i < len(all); i += n {
				v := uint32(all[i] >> (shift & 63))
				least, most = min(least, v), max(most, v)
			}
			p.base[c] = least
			switch span := most - least; {
			case span < 1<<8:
				p.size[c] = 1
			case span < 1<<16:
				p.size[c] = 2
			default:
				p.size[c] = 4
			}
			bytes += int(p.size[c]) * rows
		}
	}
	p.data = make([]byte, bytes)
	data := p.data
	for c, least := range p.base {
		size, shift := int(p.size[c]), c%2*32
		column := data[:size*rows]
		data = data[len(column):]
		switch i := c / 2; size {
		case 1:
			for at := range column {
				column[at] = byte(uint32(all[i]>>(shift&63)) - least)
				i += n
			}
		case 2:
			for ; len(column) > 0; column = column[2:] {
				binary.LittleEndian.PutUint16(column, uint16(uint32(all[i]>>(shift&63))-least))
				i += n
			}
		case 4:
			for ; len(column) > 0; column = column[4:] {
				binary.LittleEndian.PutUint32(column, uint32(all[i]>>(shift&63))-least)
				i += n
			}
		}
	}
	return p
}

// row reads one row back.
func (p *packed) row(i int, into []uint64) {
	at := 0
	clear(into)
	for c, size := range p.size {
		var b [4]byte
		copy(b[:], p.data[at+i*int(size):at+(i+1)*int(size)])
		into[c/2] |= uint64(p.base[c]+binary.LittleEndian.Uint32(b[:])) << (c % 2 * 32)
		at += p.rows * int(size)
	}
}
