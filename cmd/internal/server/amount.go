package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"gantry/cmd/api"
	"gantry/executor"
	"gantry/sqlite"
)

// amount is how much JSON of clients is in memory. The rest is bounded by its bytes.
type amount struct {
	bytes    int
	objects  int // hundreds of bytes of memory each, and two of text
	elements int // lists, and texts in lists: 24 bytes of memory each, and two of text
}

// mostAmount is the largest amount of one user's requests that are under way.
var mostAmount = amount{bytes: 576 << 20, objects: 2 << 20, elements: 16 << 20}

func (a amount) plus(b amount, times int) amount {
	return amount{a.bytes + times*b.bytes, a.objects + times*b.objects, a.elements + times*b.elements}
}

func (a amount) within(b amount) bool {
	return a.bytes <= b.bytes && a.objects <= b.objects && a.elements <= b.elements
}

// amountOf counts the objects and elements of a JSON text.
func amountOf(text []byte) (a amount, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowInvalidUTF8(true),
		jsontext.AllowDuplicateNames(true))
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return a, nil
		} else if err != nil {
			return a, err
		}
		in, _ := d.StackIndex(d.StackDepth())
		switch kind := t.Kind(); {
		case kind == '{':
			a.objects++
		case kind == '[', kind == '"' && in == '[':
			a.elements++
		}
	}
}

// taking returns a function that notes how much a request takes in memory, and refuses more than one user may have
// under way. Done gives all of it back.
func (s *Server) taking(by Peer) (take func(amount) error, done func()) {
	var own amount
	return func(a amount) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			own, s.underWay[by.UID] = own.plus(a, 1), s.underWay[by.UID].plus(a, 1)
			bound := fmt.Sprintf("%d MiB, %d objects or %d texts and lists of JSON", mostAmount.bytes>>20,
				mostAmount.objects, mostAmount.elements)
			switch {
			case !own.within(mostAmount):
				return invalidf("one request may take %s at most: hand in less at once", bound)
			case !s.underWay[by.UID].within(mostAmount):
				return &api.Error{Code: api.Full, Message: fmt.Sprintf("your requests under way may take %s at most "+
					"in all: hand this one in again when the others are answered", bound)}
			}
			return nil
		}, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.underWay[by.UID] = s.underWay[by.UID].plus(own, -1); s.underWay[by.UID] == (amount{}) {
				delete(s.underWay, by.UID)
			}
		}
}

// submissionOf reads a submission that a client sent. It calls take before it takes memory.
func submissionOf(blob []byte, take func(amount) error) (*executor.Submission, error) {
	n := sqlite.UnpackedSize(blob)
	if err := take(amount{bytes: n}); err != nil {
		return nil, err
	}
	text, err := sqlite.Unpack(blob, n)
	if err != nil {
		return nil, err
	}
	a, err := amountOf(text)
	if err == nil {
		err = take(a)
	}
	if err != nil {
		return nil, err
	}
	return sqlite.DecodeSubmission(text)
}
