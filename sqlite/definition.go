package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"

	"gantry/executor"
	"gantry/planner"
)

// A definition is an admission in columns: the number of its format, then each member of each kind of struct, of all
// structs of that kind together. Whole columns are mostly one value, or count upwards, and take two bytes. It is
// compressed by S2. All that admission decided is kept: on replay nothing is
// decided again.
const (
	definitionFormat = 1
	definitionLarge  = 2000 // tasks: larger ones are streamed
	// largestDefinition bounds what is unpacked of a definition that a client sent: bytes, some hundred for each task
	// of the largest workflows.
	largestDefinition = 1 << 30
)

// What compressed data begins with; no format does. S2 takes a fourth of the time of Zstandard for data as small as
// this.
var (
	s2Magic = []byte{0xff}
	// what a stream of S2 begins with; as a block it would come to six bytes, which no definition has
	s2Stream = []byte("\xff\x06\x00\x00S2sTwO")
)

// packedLess is how much less of a definition S2 may make. A definition may come from a client, and S2 wants the memory
// at once that its beginning asks for.
const packedLess = 256

// packFrom is the size from which on definitions are packed, in bytes. S2 saves little of smaller ones.
const packFrom = 4 << 10

// definer encodes definitions, one after the other in the same memory.
type definer struct {
	archive archive
	packed  []byte // memory
}

// definitionsOf encodes the workflows that arrive or grow with a batch.
func (d *definer) definitionsOf(b executor.Batch) (out [][]byte, err error) {
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
		blob, err := d.keep(a)
		if err != nil {
			return nil, err
		}
		out = append(out, bytes.Clone(blob))
	}
	return out, nil
}

// keep encodes an admission, into memory that the next one takes.
func (d *definer) keep(a *executor.Admission) ([]byte, error) {
	blob, err := d.encode(a)
	if err != nil {
		return nil, fmt.Errorf("keep workflow %s: %w", a.Submission.Name, err)
	}
	return blob, nil
}

// admits reports whether an event comes with an admission.
func admits(body planner.Body) bool {
	kind := body.Kind()
	return kind == planner.KindWorkflowArrived || kind == planner.KindWorkflowGrown
}

func encodeAdmission(a *executor.Admission) ([]byte, error) {
	return new(definer).encode(a)
}

func (d *definer) encode(a *executor.Admission) ([]byte, error) {
	plain := plain(a)
	large := !plain && (len(a.Tasks) > definitionLarge ||
		a.Submission.Workflow != nil && len(a.Submission.Workflow.Tasks) > definitionLarge)
	if large {
		if blob, err := streamed(a); blob != nil || err != nil {
			return blob, err
		}
		defer func() { *d = definer{} }() // that much memory is not kept
	}
	x := &d.archive
	x.out, x.writing, x.err = append(x.out[:0], definitionFormat), true, nil
	x.surveyed = nil
	if plain {
		x.put(int64(len(a.Tasks)))
		x.plainTasks(a, len(a.Tasks))
	} else {
		x.put(0)
		x.admission(a)
	}
	if x.err != nil {
		return nil, x.err
	}
	if len(x.out) < packFrom {
		return x.out, nil
	}
	most := s2.MaxEncodedLen(len(x.out))
	if most < 0 {
		return nil, errors.New("it is too large")
	}
	if cap(d.packed) < most+1 {
		d.packed = make([]byte, most+1)
	}
	d.packed[0] = s2Magic[0]
	n := len(s2.Encode(d.packed[1:most+1], x.out))
	if len(x.out) > packedLess*n {
		return x.out, nil
	}
	return d.packed[:1+n], nil
}

// streamed encodes a large definition piece by piece, so that it is never in memory as a whole before it is packed; nil
// if S2 makes so little of it that nobody would unpack it.
func streamed(a *executor.Admission) ([]byte, error) {
	var packed bytes.Buffer
	x := &archive{writing: true, out: []byte{definitionFormat, 0},
		sink: s2.NewWriter(&packed, s2.WriterConcurrency(1), s2.WriterBlockSize(blockSize))}
	x.admission(a)
	_, err := x.sink.Write(x.out)
	if err = errors.Join(x.err, err, x.sink.Close()); err != nil {
		return nil, err
	}
	if x.sunk+len(x.out) > packedLess*packed.Len() {
		return nil, nil
	}
	return packed.Bytes(), nil
}

// blockSize bounds the blocks of streams.
const blockSize = 256 << 10

func decodeAdmission(blob []byte) (*executor.Admission, error) {
	if bytes.HasPrefix(blob, s2Stream) {
		most := min(largestDefinition, packedLess*len(blob))
		in := s2.NewReader(bytes.NewReader(blob), s2.ReaderMaxBlockSize(blockSize))
		text, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
		if err == nil && len(text) > most {
			err = fmt.Errorf("%d bytes of it are more than %d", len(blob), most)
		}
		if err != nil {
			return nil, err
		}
		blob = text
	} else if bytes.HasPrefix(blob, s2Magic) {
		n, err := s2.DecodedLen(blob[1:])
		if err == nil && (n > largestDefinition || n > packedLess*(len(blob)-1)) {
			err = fmt.Errorf("%d bytes of it are to be %d", len(blob), n)
		}
		if err == nil {
			blob, err = s2.Decode(nil, blob[1:])
		}
		if err != nil {
			return nil, err
		}
	}
	if len(blob) == 0 {
		return nil, errTruncated
	}
	if blob[0] != definitionFormat {
		return nil, fmt.Errorf("its format is %d, this gantry reads %d: use the gantry that wrote it", blob[0],
			definitionFormat)
	}
	x := &archive{in: blob[1:]}
	a := new(executor.Admission)
	if n := x.plainCount(); n == 0 {
		x.admission(a)
	} else {
		x.plainTasks(a, n)
	}
	if x.err == nil && len(x.in) > 0 {
		x.err = fmt.Errorf("%d bytes are left over", len(x.in))
	}
	return a, x.err
}
