package planner

import (
	"encoding/binary"
	"slices"
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
	p := packed{base: slices.Clone(all[:n]), size: make([]uint8, n), rows: rows}
	differs := make([]uint32, n)
	for rest := all; len(rest) >= n; rest = rest[n:] { // in the order of memory
		row, base := rest[:len(differs)], p.base[:len(differs)]
		for c := range differs {
			differs[c] |= row[c] ^ base[c]
		}
	}
	bytes := 0
	for c, bits := range differs {
		if bits == 0 {
			continue // most columns
		}
		least, most := all[c], all[c]
		for i := c; i < len(all); i += n {
			least, most = min(least, all[i]), max(most, all[i])
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
	p.data = make([]byte, bytes)
	data := p.data
	for c, least := range p.base {
		size := int(p.size[c])
		column := data[:size*rows]
		data = data[len(column):]
		switch i := c; size {
		case 1:
			for at := range column {
				column[at] = byte(all[i] - least)
				i += n
			}
		case 2:
			for ; len(column) > 0; column = column[2:] {
				binary.LittleEndian.PutUint16(column, uint16(all[i]-least))
				i += n
			}
		case 4:
			for ; len(column) > 0; column = column[4:] {
				binary.LittleEndian.PutUint32(column, all[i]-least)
				i += n
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
