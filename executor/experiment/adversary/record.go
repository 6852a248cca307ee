package adversary

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Record keeps the chains of a search in a file, JSON Lines: the search, then a line for each chain. A search that was
// interrupted continues from it.
type Record struct {
	f     *os.File
	Found []*Found
}

var errOther = errors.New("it has another search: choose another --output, or remove it")

type heading struct {
	A string `json:"a"`
	B string `json:"b"`
	*Search
}

// Open opens the record of a search, and makes it if there is none. A record of another search is refused.
func Open(path string, s *Search) (*Record, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	r := &Record{f: f}
	if err := r.read(s); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Record) read(s *Search) error {
	first, err := json.Marshal(heading{s.A, s.B, s})
	if err != nil {
		return err
	}
	lines, whole := bufio.NewReader(r.f), int64(0)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // of a line that a killed gantry began nothing counts
			if n == 0 && !bytes.HasPrefix(first, line) {
				return errOther
			}
			break
		} else if err != nil {
			return err
		}
		whole += int64(len(line))
		if line = bytes.TrimSpace(line); n == 0 {
			if !bytes.Equal(line, first) {
				return errOther
			}
			continue
		}
		f := &Found{}
		if err := json.Unmarshal(line, f); err != nil || f.Instance == nil {
			return fmt.Errorf("line %d is no chain of a search: remove the file", n+1)
		}
		r.Found = append(r.Found, f)
	}
	if err := r.f.Truncate(whole); err != nil {
		return err
	}
	if _, err := r.f.Seek(whole, io.SeekStart); err != nil || whole > 0 {
		return err
	}
	_, err = r.f.Write(append(first, '\n'))
	return err
}

// Done has the numbers of the chains that are kept.
func (r *Record) Done() map[int]bool {
	done := map[int]bool{}
	for _, f := range r.Found {
		done[f.Chain] = true
	}
	return done
}

// Keep keeps a chain.
func (r *Record) Keep(f *Found) error {
	line, err := json.Marshal(f)
	if err == nil {
		_, err = r.f.Write(append(line, '\n'))
	}
	r.Found = append(r.Found, f)
	return err
}

// Worst is the instance with the largest ratio, of the chains below n; the first of equals.
func (r *Record) Worst(n int) (worst *Found) {
	for _, f := range r.Found {
		if f.Chain < n && (worst == nil || f.Ratio() > worst.Ratio() ||
			f.Ratio() == worst.Ratio() && f.Chain < worst.Chain) {
			worst = f
		}
	}
	return worst
}

// Close closes the file.
func (r *Record) Close() error { return r.f.Close() }
