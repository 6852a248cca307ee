package sqlite

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"

	"gantry/executor"
	"gantry/planner"
)

// A definition is an admission in columns: the number of its format, then each member of each kind of struct, of all
// structs of that kind together. Whole columns are mostly one value, or count upwards, and take two bytes. All that
// admission decided is kept: on replay nothing is decided again.
const (
	definitionFormat = 1
	// s2Magic is the first byte of a definition that S2 compressed: no format is as high. S2 takes a fourth of the time
	// of Zstandard for data as small as this.
	s2Magic = 0xff
	// largestDefinition bounds the unpacked size of a damaged definition: bytes, some hundred for each task of the
	// largest workflows.
	largestDefinition = 1 << 30
	// packedLess is how much less of a definition S2 may make: S2 wants the memory at once that a beginning asks for.
	packedLess = 256
	// packFrom is the size from which on definitions are packed, in bytes. S2 saves little of smaller ones.
	packFrom = 4 << 10
)

// definitionsOf encodes the workflows that arrive or grow with a batch.
func definitionsOf(b executor.Batch) (out [][]byte, err error) {
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
		blob, err := encodeAdmission(a)
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

func encodeAdmission(a *executor.Admission) ([]byte, error) {
	x := &archive{writing: true, out: []byte{definitionFormat}}
	x.admission(a)
	if x.err != nil {
		return nil, x.err
	}
	return pack(x.out)
}

// pack compresses a text, if that pays.
func pack(text []byte) ([]byte, error) {
	if len(text) < packFrom {
		return text, nil
	}
	most := s2.MaxEncodedLen(len(text))
	if most < 0 {
		return nil, errors.New("it is too large")
	}
	packed := make([]byte, 1+most)
	packed[0] = s2Magic
	packed = packed[:1+len(s2.Encode(packed[1:], text))]
	if len(text) > packedLess*len(packed) {
		return text, nil
	}
	return bytes.Clone(packed), nil
}

// unpack reverses pack, which may have left the text as it was. A packed text of more than most bytes is an error.
func unpack(blob []byte, most int) ([]byte, error) {
	if len(blob) == 0 || blob[0] != s2Magic {
		return blob, nil
	}
	n, err := s2.DecodedLen(blob[1:])
	if err == nil && (n > most || n > packedLess*len(blob)) {
		err = fmt.Errorf("%d bytes of it are to be %d", len(blob), n)
	}
	if err != nil {
		return nil, err
	}
	return s2.Decode(nil, blob[1:])
}

func decodeAdmission(blob []byte) (*executor.Admission, error) {
	blob, err := unpack(blob, largestDefinition)
	if err != nil {
		return nil, err
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
	x.admission(a)
	if x.err == nil && len(x.in) > 0 {
		x.err = fmt.Errorf("%d bytes are left over", len(x.in))
	}
	return a, x.err
}
