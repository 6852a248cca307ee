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
		b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<adag xmlns=\"http://pegasus.isi.edu/schema/DAX\" version=\"2.1\" name=\"test\">\n")
		use := func(f int, link string) {
			fmt.Fprintf(&b, "    <uses file=\"file-%d.dat\" link=%q register=\"true\" transfer=\"true\" optional=\"false\" type=\"data\" size=\"%d\"/>\n", f, link, 1000+f)
		}
		flush := func() {
			if b.Len() > 1<<16 {
				w.Write(b.Bytes())
				b.Reset()
			}
		}
		for i := range n {
			fmt.Fprintf(&b, "  <job id=\"ID%07d\" namespace=\"Montage\" name=\"mProject%d\" version=\"1.0\" runtime=\"%d.%02d\">\n", i, i%9, i%60, i%100)
			if i >= width {
				use(i-width, "input")
				use(i-i%width-width+(i+1)%width, "input")
			}
			use(i, "output")
			b.WriteString("  </job>\n")
			flush()
		}
		for i := width; i < n; i++ {
			fmt.Fprintf(&b, "  <child ref=\"ID%07d\">\n    <parent ref=\"ID%07d\"/>\n    <parent ref=\"ID%07d\"/>\n  </child>\n", i, i-width, i-i%width-width+(i+1)%width)
			flush()
		}
		b.WriteString("</adag>\n")
		w.Write(b.Bytes())
		w.Close()
	}()
	return r
}

func BenchmarkReadDAX(b *testing.B) {
	text, err := io.ReadAll(daxText(20_000))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		w, faults, err := trace.Read(bytes.NewReader(text), "bench.dax", trace.ReadOptions{})
		if err != nil || len(faults) > 0 || len(w.Tasks) != 20_000 {
			b.Fatal(err, faults)
		}
	}
}

func BenchmarkReadWfFormat(b *testing.B) {
	w, _, err := trace.Read(daxText(20_000), "bench.dax", trace.ReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	if err := trace.WriteWfFormat(&text, w); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		w, faults, err := trace.Read(bytes.NewReader(text.Bytes()), "bench.json", trace.ReadOptions{})
		if err != nil || len(faults) > 0 || len(w.Tasks) != 20_000 {
			b.Fatal(err, faults)
		}
	}
}

// A DAX is read as a stream: what is held is in proportion to its tasks, and far less than its text or a tree of its elements.
func TestReadingDAXHoldsOnlyItsTasks(t *testing.T) {
	const n = 50_000
	peak, stop := make(chan uint64), make(chan bool)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	go func() {
		var most uint64
		for {
			select {
			case <-stop:
				peak <- most
				return
			default:
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
				runtime.Gosched()
			}
		}
	}()
	w, faults, err := trace.Read(daxText(n), strings.Repeat("x", 1), trace.ReadOptions{})
	close(stop)
	if most := <-peak; most > before+n*1500 { // the text alone has more than 500 bytes a job, its tree several times that
		t.Errorf("%d bytes of heap for %d jobs", most-before, n)
	}
	if err != nil || len(faults) > 0 || len(w.Tasks) != n {
		t.Fatal(err, faults)
	}
}
