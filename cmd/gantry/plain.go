package main

import (
	"bytes"
	"io"
)

// plain keeps control characters from terminals: names in traces and what programs said could move the cursor, or
// worse.
type plain struct{ io.Writer }

// isControl reports whether a terminal would do more with a rune than show it or end the line.
func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }

func (p plain) Write(b []byte) (int, error) {
	if !bytes.ContainsFunc(b, isControl) {
		return p.Writer.Write(b)
	}
	if _, err := p.Writer.Write(bytes.Map(func(r rune) rune {
		if isControl(r) {
			return '?'
		}
		return r
	}, b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// checked remembers the first error of writing, for all that prints without looking at it.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}
