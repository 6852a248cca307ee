package term

import (
	"io"

	"gantry/trace/shown"
)

// plain keeps control characters from terminals: names in traces and output of programs could move the cursor, or
// worse. Data, such as JSON, has none.
type plain struct{ io.Writer }

func (p plain) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, shown.Text(string(b))); err != nil {
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
