package sqlite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"gantry/executor"
	"gantry/planner"
)

// A definition is an admission in columns: the number of its format, then each member of each kind of struct, of all
// structs of that kind together. Whole columns are mostly one value, or count upwards, and take two bytes. Those of
// large workflows and of real runs are gzip'ed. All that admission decided is kept: on replay nothing is decided again.
const (
	definitionFormat = 7
	oldestDefinition = 4    // without declared memory; 5 is without catalogs and sources
	definitionLarge  = 2000 // tasks
	// largestDefinition bounds what gzip makes of a definition that a client sent: bytes, some hundred for each task of
	// the largest workflows.
	largestDefinition = 1 << 30
)

// gzipMagic is what gzip'ed data begins with; no format does.
var gzipMagic = []byte{0x1f, 0x8b}

// definer encodes definitions, one after the other in the same memory.
type definer struct {
	archive archive
	out     bytes.Buffer
}

// definitionsOf encodes the workflows that arrive or grow with a batch.
func (d *definer) definitionsOf(b executor.Batch, compress func(*executor.Admission) bool) (out [][]byte, err error) {
	arrivals := 0
	for i := range b.Events {
		if admits(b.Events[i].Body) {
			arrivals++
		}
	}
	if arrivals != len(b.Admissions) {
		return nil, fmt.Errorf("a batch has %d arrivals and growths, but %d admissions", arrivals, len(b.Admissions))
	}
	for _, a := range b.Admissions {
		blob, err := d.encode(a, compress(a))
		if err != nil {
			return nil, fmt.Errorf("keep workflow %s: %w", a.Submission.Name, err)
		}
		out = append(out, blob)
	}
	return out, nil
}

// admits reports whether an event comes with an admission.
func admits(body planner.Body) bool {
	kind := body.Kind()
	return kind == planner.KindWorkflowArrived || kind == planner.KindWorkflowGrown
}

func encodeAdmission(a *executor.Admission, compress bool) ([]byte, error) {
	return new(definer).encode(a, compress)
}

func (d *definer) encode(a *executor.Admission, compress bool) ([]byte, error) {
	x := &d.archive
	x.out, x.writing, x.format, x.err = append(x.out[:0], definitionFormat), true, definitionFormat, nil
	x.admission(a)
	if len(a.Tasks) > definitionLarge {
		defer func() { *d = definer{} }() // that much memory is not kept
	}
	if x.err != nil || !compress {
		return bytes.Clone(x.out), x.err
	}
	d.out.Reset()
	zip, err := gzip.NewWriterLevel(&d.out, gzip.BestSpeed)
	if err == nil {
		_, err = zip.Write(x.out)
	}
	if err == nil {
		err = zip.Close()
	}
	return bytes.Clone(d.out.Bytes()), err
}

func decodeAdmission(blob []byte) (*executor.Admission, error) {
	if bytes.HasPrefix(blob, gzipMagic) {
		zip, err := gzip.NewReader(bytes.NewReader(blob))
		if err != nil {
			return nil, err
		}
		if blob, err = io.ReadAll(io.LimitReader(zip, largestDefinition+1)); err != nil {
			return nil, err
		}
		if len(blob) > largestDefinition {
			return nil, fmt.Errorf("it has more than %d bytes", largestDefinition)
		}
	}
	if len(blob) == 0 {
		return nil, errTruncated
	}
	if blob[0] < oldestDefinition || blob[0] > definitionFormat {
		return decodeLegacy(blob)
	}
	x := &archive{in: blob[1:], format: blob[0]}
	a := new(executor.Admission)
	x.admission(a)
	if x.err == nil && len(x.in) > 0 {
		x.err = fmt.Errorf("%d bytes are left over", len(x.in))
	}
	return a, x.err
}
