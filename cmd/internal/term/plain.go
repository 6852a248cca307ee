package term

import (
	"io"
	"regexp"

	"gantry/trace/shown"
)

// plain keeps control characters from terminals: names in traces and output of programs could move the cursor, or
// worse. Data, such as JSON, has none.
type plain struct {
	io.Writer
	colours bool
}

// paints are the colours of gantry's own words, which say how a line is meant.
var paints = map[string]*regexp.Regexp{
	"31;1": regexp.MustCompile(`(?m)^(?:gantry:|failed:)|^Run \S+: failed\b|it failed for good\b`),
	"32;1": regexp.MustCompile(`(?m)^Run \S+: finished\b`),
	"33":   regexp.MustCompile(`(?m)^(?:warning|suspect):`),
}

func (p plain) Write(b []byte) (int, error) {
	text := shown.Text(string(b))
	if p.colours {
		for colour, words := range paints {
			text = words.ReplaceAllString(text, "\x1b["+colour+"m$0\x1b[0m")
		}
	}
	if _, err := io.WriteString(p.Writer, text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Checked remembers the first error of writing, for all that prints without looking at it.
type Checked struct {
	io.Writer
	Err error
}

func (c *Checked) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if c.Err == nil {
		c.Err = err
	}
	return n, err
}
