package reader

import (
	"encoding/binary"
	"unicode/utf8"
)

// Glance looks ahead in what a JSON has buffered, at values as most files write them: texts without escapes, short
// numbers, true and false, and lists and objects of these. At anything else, and at the end of what is buffered, it
// fails: the values are then for the JSON to read, which has not moved. What it accepts, it takes as a JSON does.
type Glance struct {
	text   []byte
	at     int
	lines  int // that it passed
	failed bool
}

// Glance looks ahead from what Peek returned.
func (j *JSON) Glance() Glance { return Glance{text: j.window[j.at:]} }

// Take moves to where a glance that did not fail has come.
func (j *JSON) Take(g *Glance) {
	j.at += g.at
	j.Line += g.lines
}

// shortNumber bounds the characters of numbers that a glance accepts.
const shortNumber = 64

// Fail has the glance fail.
func (g *Glance) Fail() { g.failed = true }

// Failed reports whether the values are for the JSON to read.
func (g *Glance) Failed() bool { return g.failed }

// Lines is how many line ends were passed.
func (g *Glance) Lines() int { return g.lines }

// Peek returns the next byte that is not white space, and leaves it there; 0 if there is none.
func (g *Glance) Peek() byte {
	for g.at < len(g.text) {
		switch c := g.text[g.at]; c {
		case ' ':
			for g.at+8 < len(g.text) && binary.LittleEndian.Uint64(g.text[g.at:]) == blanks {
				g.at += 7
			}
		case '\n':
			g.lines++
		case '\t', '\r':
		default:
			return c
		}
		g.at++
	}
	return 0
}

// Open steps into an object or a list, which begins with that byte.
func (g *Glance) Open(begin byte) {
	if g.Peek() != begin {
		g.failed = true
		return
	}
	g.at++
}

// More steps to the next member of an object or a list, which ends with that byte, and reports whether there is one.
func (g *Glance) More(first bool, end byte) bool {
	c := g.Peek()
	switch {
	case g.failed:
		return false
	case c == end:
		g.at++
		return false
	case first:
		return true
	case c != ',':
		g.failed = true
		return false
	}
	g.at++
	return true
}

// Key reads a key and its colon.
func (g *Glance) Key() []byte {
	if g.Peek() != '"' {
		g.failed = true
		return nil
	}
	key := g.quoted()
	if g.Peek() != ':' {
		g.failed = true
		return nil
	}
	g.at++
	return key
}

// Bytes reads a text or a number, and whether it was in quotes.
func (g *Glance) Bytes() (text []byte, quoted bool) {
	switch c := g.Peek(); {
	case c == '"':
		return g.quoted(), true
	case c != '-' && (c < '0' || c > '9'):
		g.failed = true
		return nil, false
	}
	text = g.bare()
	if !jsonNumber(text) {
		g.failed = true
	}
	return text, false
}

// Truth reads true or false.
func (g *Glance) Truth() bool {
	g.Peek()
	word := string(g.bare())
	if word != "true" && word != "false" {
		g.failed = true
	}
	return word == "true"
}

// Skip reads a text, a number, or a list of these.
func (g *Glance) Skip() {
	if g.Peek() != '[' {
		g.Bytes()
		return
	}
	g.at++
	for first := true; g.More(first, ']'); first = false {
		g.Bytes()
	}
}

func (g *Glance) quoted() []byte {
	rest := g.text[g.at+1:]
	n, ascii := plainText(rest)
	if n == len(rest) || rest[n] != '"' || !ascii && !utf8.Valid(rest[:n]) {
		g.failed = true
		return nil
	}
	g.at += n + 2
	return rest[:n]
}

func (g *Glance) bare() []byte {
	rest := g.text[g.at:min(len(g.text), g.at+shortNumber+1)]
	n := 0
	for n < len(rest) && bareBytes[rest[n]] {
		n++
	}
	if n == len(rest) {
		g.failed = true
		return nil
	}
	g.at += n
	return rest[:n]
}
