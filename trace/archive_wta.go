package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"gantry/trace/reader"
)

// isWTA reports whether a directory, or a file, is one of the Workflow Trace Archive: it has tasks in Parquet.
func isWTA(dir string) bool { return len(wtaTasks(dir)) > 0 }

// wtaTasks are the files of tasks below a directory, such as tasks/schema-1.0/part.0.parquet.
func wtaTasks(dir string) []string {
	if strings.HasSuffix(dir, ".parquet") {
		return []string{dir}
	}
	var all []string
	for _, pattern := range []string{"tasks/*.parquet", "tasks/*/*.parquet", "tasks.parquet"} {
		found, _ := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		all = append(all, found...)
	}
	return all
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// readWTA reads a directory of the Workflow Trace Archive.
func readWTA(dir string, opt ReadOptions) (*Archive, []Fault, error) {
	x, files := newArchiver(dir, opt), wtaTasks(dir)
	x.tasks = map[wtaID]int32{}
	if len(files) == 0 {
		x.faults.Fail("unknown-format", 0, "", "a directory without tasks/*/*.parquet of the Workflow Trace Archive")
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err == nil {
			err = x.wtaFile(f)
			f.Close()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	x.wtaLinks()
	x.finish()
	return x.Archive, x.faults.Sorted(), nil
}

// refuseStream refuses Parquet that comes as a stream.
func (x *archiver) refuseStream() {
	x.faults.Fail("unknown-format", 1, "", "Parquet has its index at its end, so that it is not read from standard "+
		"input: name a file NAME.parquet, or a directory of the Workflow Trace Archive")
}

// wtaRow is a task as the archive has it: -1 is not known.
type wtaRow struct {
	id, workflow, submit, runtime, user int64
	cores                               float64
	kind                                []byte
	parents                             []int64
	isTask, isOf                        bool // it has an id, and a workflow
}

// wtaFile reads a file of tasks: milliseconds, and cores. What memory is given in differs from trace to trace, so that
// it is not read.
func (x *archiver) wtaFile(f *os.File) (err error) {
	x.Format, x.task = WTA, "t"
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Parquet has numbers that its library believes, and panics at some.
	defer func() {
		if p := recover(); p != nil {
			x.faults.Fail("bad-archive", 0, "", "%s: damaged Parquet: %v; get the file again", f.Name(), p)
		}
	}()
	var end [8]byte
	_, err = f.ReadAt(end[:], info.Size()-8)
	if n := int64(binary.LittleEndian.Uint32(end[:])); err == nil && n > info.Size()-8 {
		err = fmt.Errorf("metadata of %d bytes", n)
	}
	var file *parquet.File
	if err == nil {
		file, err = parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	}
	if err != nil {
		x.faults.Fail("bad-archive", 0, "", "%s: no Parquet, or damaged: %v; get the file again", f.Name(), err)
		return nil
	}
	x.room += 12 * info.Size()
	columns := file.Schema().Columns()
	if !x.wtaSound(f, info.Size(), file, columns) {
		return nil
	}
	for _, g := range file.RowGroups() {
		rows, buffer := g.Rows(), make([]parquet.Row, 256)
		for err == nil && !x.faults.Ended() {
			var n int
			n, err = rows.ReadRows(buffer)
			for _, row := range buffer[:n] {
				x.wtaTask(wtaOf(row, columns))
			}
		}
		rows.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			x.faults.Fail("bad-archive", 0, "", "%s: %v; get the file again", f.Name(), err)
			return nil
		}
		err = nil
	}
	return nil
}

// wtaSound reports whether a file has the columns of tasks, and not more than its size lets expect.
func (x *archiver) wtaSound(f *os.File, size int64, file *parquet.File, columns [][]string) bool {
	most := max(reader.MaxInput, reader.MaxRatio*size)
	if x.opt.MaxInput > 0 {
		most = x.opt.MaxInput
	}
	for _, g := range file.Metadata().RowGroups {
		for i := range g.Columns {
			if err := wtaPages(f, &g.Columns[i].MetaData, &most); err != nil {
				advice := "get it again, or raise the bound by --max-input SIZE"
				if errors.Is(err, errCodec) {
					advice = "write it with one of these"
				}
				x.faults.Fail("bad-archive", 0, "", "%s: %v; %s", f.Name(), err, advice)
				return false
			}
		}
	}
	for _, needed := range []string{"id", "workflow_id", "ts_submit", "runtime", "parents"} {
		if !slices.ContainsFunc(columns, func(c []string) bool { return c[0] == needed }) {
			x.faults.Fail("missing-column", 0, "", "%s: there is no column %s: is it a file of tasks?", f.Name(),
				needed)
			return false
		}
	}
	return true
}

// wtaPages checks the sizes of the pages of a column: the library takes as much memory as they claim, which may be no
// more than most in all.
func wtaPages(f io.ReaderAt, c *format.ColumnMetaData, most *int64) error {
	at := c.DataPageOffset
	if c.DictionaryPageOffset > 0 {
		at = min(at, c.DictionaryPageOffset)
	}
	window := make([]byte, reader.Window)
	for end := at + c.TotalCompressedSize; at < end; {
		n, err := f.ReadAt(window[:min(int64(len(window)), end-at)], at)
		if err != nil && err != io.EOF {
			return err
		}
		in, page := new(thrift.CompactProtocol).NewReaderFromBytes(window[:n]), format.PageHeader{}
		if err := thrift.NewDecoder(in).Decode(&page); err != nil {
			return fmt.Errorf("a page without its header: %w", err)
		}
		at += int64(n-in.Reader().(*bytes.Reader).Len()) + int64(page.CompressedPageSize)
		values, plain, packed := int32(0), int64(0), true
		if h := page.DataPageHeader; h.Valid {
			values = h.V.NumValues
		} else if h := page.DataPageHeaderV2; h.Valid {
			values, packed = h.V.NumValues, !h.V.IsCompressed.Valid || h.V.IsCompressed.V
			plain = int64(h.V.RepetitionLevelsByteLength) + int64(h.V.DefinitionLevelsByteLength)
		} else if h := page.DictionaryPageHeader; h.Valid {
			values = h.V.NumValues
		}
		*most -= max(int64(page.UncompressedPageSize), int64(values))
		if page.CompressedPageSize < 0 || at > end || page.UncompressedPageSize < 0 || values < 0 || *most < 0 {
			return fmt.Errorf("a page of %d bytes, %d when it is unpacked, and %d values", page.CompressedPageSize,
				page.UncompressedPageSize, values)
		}
		size, claim := int64(page.CompressedPageSize)-plain, int64(page.UncompressedPageSize)-plain
		if min(plain, size, claim) < 0 {
			return fmt.Errorf("a page of %d bytes with %d of levels", page.CompressedPageSize, plain)
		}
		if packed {
			if err := wtaUnpacked(io.NewSectionReader(f, at-size, size), c.Codec, claim); err != nil {
				return err
			}
		}
	}
	return nil
}

var errCodec = errors.New("gantry reads snappy, gzip and zstd")

// wtaUnpacked checks that a page has no more bytes than it claims once it is unpacked: the library unpacks all.
func wtaUnpacked(in io.Reader, codec format.CompressionCodec, claim int64) error {
	n, err := int64(0), error(nil)
	switch codec {
	case format.Uncompressed:
		return nil
	case format.Snappy:
		var size uint64
		size, err = binary.ReadUvarint(bufio.NewReader(in))
		n = int64(min(size, math.MaxInt64))
	case format.Gzip:
		if in, err = gzip.NewReader(in); err == nil {
			n, err = io.Copy(io.Discard, io.LimitReader(in, claim+1))
		}
	case format.Zstd:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)); err == nil {
			n, err = io.Copy(io.Discard, io.LimitReader(z, claim+1))
			z.Close()
		}
	default:
		return fmt.Errorf("pages are compressed by %v: %w", codec, errCodec)
	}
	if err == nil && n > claim {
		err = fmt.Errorf("a page claims %d bytes, and has more when it is unpacked", claim)
	}
	return err
}

// wtaOf takes the values of a row that are known.
func wtaOf(row parquet.Row, columns [][]string) wtaRow {
	r := wtaRow{user: -1, cores: -1, submit: -1, runtime: -1}
	for _, v := range row {
		if v.IsNull() || v.Column() >= len(columns) {
			continue
		}
		name, n, x := columns[v.Column()][0], int64(0), 0.0
		switch v.Kind() {
		case parquet.Int32:
			n = int64(v.Int32())
			x = float64(n)
		case parquet.Int64:
			n = v.Int64()
			x = float64(n)
		case parquet.Float, parquet.Double:
			if x = float64(v.Float()); v.Kind() == parquet.Double {
				x = v.Double()
			}
			if math.Abs(x) < 1<<62 {
				n = int64(x)
			}
		}
		switch name {
		case "id":
			r.id, r.isTask = n, true
		case "workflow_id":
			r.workflow, r.isOf = n, true
		case "ts_submit":
			r.submit = n
		case "runtime":
			r.runtime = n
		case "user_id":
			r.user = n
		case "resource_amount_requested":
			r.cores = x
		case "type":
			if v.Kind() == parquet.ByteArray {
				r.kind = v.ByteArray()
			}
		case "parents":
			r.parents = append(r.parents, n)
		}
	}
	return r
}

// wtaTask adds a task.
func (x *archiver) wtaTask(r wtaRow) {
	const longest = int64(reader.MaxTime / time.Millisecond)
	wrong := ""
	switch {
	case !r.isTask || !r.isOf:
		wrong = "has no id, or no workflow"
	case r.runtime > longest || r.submit > 9e12 || r.submit < -1:
		wrong = fmt.Sprintf("runs for %d ms, or is submitted at %d ms: beyond 100 years", r.runtime, r.submit)
	case math.IsNaN(r.cores) || r.cores > reader.MaxCores:
		wrong = fmt.Sprintf("asks for %g cores: above the bound of %d", r.cores, reader.MaxCores)
	case x.tasks[wtaID{r.workflow, r.id}] != 0:
		wrong = "is there twice"
	}
	if wrong != "" {
		x.faults.Judge(x.opt.Repair, "bad-row", 0, "", "the task is left out", "task %d of workflow %d %s", r.id,
			r.workflow, wrong)
		return
	}
	if r.runtime < 0 || r.submit < 0 {
		x.leave("tasks without a runtime or an instant of submission")
		return
	}
	var tenant int32
	if r.user >= 0 {
		tenant = x.text(fmt.Appendf(nil, "user%d", r.user))
	}
	if len(r.kind) == 0 {
		r.kind = []byte("task")
	}
	job, _ := x.job(r.workflow, time.Duration(r.submit)*time.Millisecond, tenant, 0)
	x.keep(jobKept+edgeKept*len(r.parents), 0)
	x.row(archivedTask{id: int64(len(x.rows)), run: time.Duration(r.runtime) * time.Millisecond,
		cores: float32(max(0, r.cores)), kind: x.text(r.kind), job: job, instances: 1}, 0)
	x.tasks[wtaID{r.workflow, r.id}] = int32(len(x.rows))
	x.parents = append(x.parents, r.parents)
}

// wtaID is a task: some traces number them in each workflow anew.
type wtaID struct{ workflow, task int64 }

// wtaLinks resolves the parents of tasks, which come in any order.
func (x *archiver) wtaLinks() {
	x.places = make([]int32, len(x.rows))
	x.eachJob(func(from, to int) {
		for i := from; i < to; i++ {
			x.places[x.rows[i].id] = int32(i - from)
		}
	})
	x.eachJob(func(from, to int) {
		back := false
		for i := from; i < to; i++ {
			back = x.wtaParents(&x.rows[i], int32(i-from)) || back
		}
		if back {
			x.acyclic(from, to)
		}
	})
	x.tasks, x.parents, x.places = nil, nil, nil
	x.Imputed = append(x.Imputed, Imputation{"arrival", "submission of the first task", len(x.jobs)})
}

// wtaParents resolves those of one task, and reports whether one comes behind it in the file.
func (x *archiver) wtaParents(row *archivedTask, place int32) (back bool) {
	begin := len(x.edges)
	for _, id := range x.parents[row.id] {
		p := x.tasks[wtaID{x.jobs[row.job].id, id}] - 1
		if p < 0 {
			x.leave("dependencies on tasks that the workflow does not have")
		} else if x.places[p] != place {
			x.edges = append(x.edges, x.places[p])
			back = back || x.places[p] > place
		}
	}
	slices.Sort(x.edges[begin:])
	x.edges = x.edges[:begin+len(slices.Compact(x.edges[begin:]))]
	row.edges, row.id = int32(len(x.edges)), int64(place)+1
	return back
}
