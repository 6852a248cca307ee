package planner

import (
	"encoding/binary"
	"unsafe"
)

// packed is rows of numbers by columns, each with as few bytes as its range needs: of what is over most members are
// alike. It has no pointers, so that the collector of garbage need not look at it.
type packed struct {
	data []byte   // the columns, one after the other
	base []uint32 // by column: its least number
	size []uint8  // by column: bytes of a number less its base, 0, 1, 2 or 4
	rows int
}

// words is the memory of a list of structs without pointers.
func words[T any](s []T) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])/unsafe.Sizeof(uint32(0))))
}

// pack takes in all words of a number of rows.
func pack(all []uint32, rows int) packed {
	n := len(all) / rows
	p := packed{base: make([]uint32, n), size: make([]uint8, n), rows: rows}
	bytes := 0
	for c := range n {
		least, most := all[c], all[c]
		for i := c; i < len(all); i += n {
			least, most = min(least, all[i]), max(most, all[i])
		}
		p.base[c] = least
		switch span := most - least; {
		case span == 0:
		case span < 1<<8:
			p.size[c] = 1
		case span < 1<<16:
			p.size[c] = 2
		default:
			p.size[c] = 4
		}
		bytes += int(p.size[c]) * rows
	}
	p.data = make([]byte, 0, bytes)
	for c, least := range p.base {
		switch p.size[c] {
		case 1:
			for i := c; i < len(all); i += n {
				p.data = append(p.data, byte(all[i]-least))
			}
		case 2:
			for i := c; i < len(all); i += n {
				p.data = binary.LittleEndian.AppendUint16(p.data, uint16(all[i]-least))
			}
		case 4:
			for i := c; i < len(all); i += n {
				p.data = binary.LittleEndian.AppendUint32(p.data, all[i]-least)
			}
		}
	}
	return p
}

// row reads one row back.
func (p *packed) row(i int, into []uint32) {
	at := 0
	for c, size := range p.size {
		var b [4]byte
		copy(b[:], p.data[at+i*int(size):at+(i+1)*int(size)])
		into[c] = p.base[c] + binary.LittleEndian.Uint32(b[:])
		at += p.rows * int(size)
	}
}
