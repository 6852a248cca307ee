package trace_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"gantry/trace"
)

// daxText writes a synthetic DAX of n jobs as the Pegasus workflow generator does, layer by layer, without holding it.
func daxText(n int) io.Reader {
	const width = 100
	r, w := io.Pipe()
	go func() {
		var b bytes.Buffer
		b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<adag " +
			"xmlns=\"http://pegasus.isi.edu/schema/DAX\" version=\"2.1\" name=\"test\">\n")
		use := func(f int, link string) {
			fmt.Fprintf(&b, "    <uses file=\"file-%d.dat\" link=%q register=\"true\" transfer=\"true\" "+
				"optional=\"false\" type=\"data\" size=\"%d\"/>\n", f, link, 1000+f)
		}
		flush := func() {
			if b.Len() > 1<<16 {
				w.Write(b.Bytes())
				b.Reset()
			}
		}
		for i := range n {
			fmt.Fprintf(&b, "  <job id=\"ID%07d\" namespace=\"Montage\" name=\"mProject%d\" version=\"1.0\" "+
				"runtime=\"%d.%02d\">\n", i, i%9, i%60, i%100)
			if i >= width {
				use(i-width, "input")
				use(i-i%width-width+(i+1)%width, "input")
			}
			use(i, "output")
			b.WriteString("  </job>\n")
			flush()
		}
		for i := width; i < n; i++ {
			fmt.Fprintf(&b, "  <child ref=\"ID%07d\">\n    <parent ref=\"ID%07d\"/>\n    <parent ref=\"ID%07d\"/>\n "+
				" </child>\n", i, i-width, i-i%width-width+(i+1)%width)
			flush()
		}
		b.WriteString("</adag>\n")
		w.Write(b.Bytes())
		w.Close()
	}()
	return r
}

// A DAX is read as a stream: what is allocated in all is in proportion to its tasks, and much less than a tree of its
// elements takes.
func TestReadingDAXAllocatesOnlyForItsTasks(t *testing.T) {
	const n = 20_000
	text, err := io.ReadAll(daxText(n))
	must(t, err)
	read := func(text []byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w, faults, err := trace.Read(bytes.NewReader(text), "big.dax", trace.ReadOptions{})
		runtime.ReadMemStats(&after)
		if err != nil || len(faults) > 0 || len(w.Tasks) != n {
			t.Fatal(err, faults)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	plain := read(text)
	// The same workflow with ten times as much text that says nothing of it.
	padding := []byte("<!-- " + strings.Repeat("x", 3000) + " --><metadata key=\"a\">" + strings.Repeat("y", 3000) +
		"</metadata><job ")
	padded := read(bytes.ReplaceAll(text, []byte("<job "), padding))
	if padded > plain+plain/10 {
		t.Errorf("%d bytes are allocated for %d tasks, %d with comments and metadata between them", plain, n, padded)
	}
}
