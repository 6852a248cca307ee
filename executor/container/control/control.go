// Package control is the control directory of an attempt, in which gantry and the launcher of the attempt's program
// leave each other the facts that must survive a crash of either. The program cannot reach it: see package
// launch/first, which has the launcher's part in C. It is a leaf, and light, because the emulator is.
//
//	facts       facts of the attempt for a gantry that adopts it
//	claim       the decision whether the program begins: a symbolic link, so that it appears whole and only once
//	end         the launcher's account: signals that came from outside, and how the program ended
//	asked       gantry's account: each signal and each removal, written before the act
//	places      the directories that the launcher has to find in the container, a NUL after each
//	publishing  the outputs were all checked, and moving them to the node had begun
//
// The claim is made once and for ever: by the launcher, whose program then begins, or by a gantry that gives the
// attempt up, as a start that a killed gantry asked for may still be on its way.
package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Maker is the maker of a claim.
type Maker uint8

const (
	Nobody   Maker = iota
	Launcher       // of the attempt: the program began
	Gantry         // gave the attempt up: the program never begins
)

var makers = [...]string{"nobody", "launcher", "gantry"}

func (m Maker) String() string { return makers[m] }

// Dir is a control directory.
type Dir string

// Make makes the directory, unless it exists, and reserves room for the accounts in it: no program begins whose end a
// full disk would keep from being noted. With open the launcher is another user on the host than gantry: then only the
// directory above keeps others out.
func (d Dir) Make(open bool) error {
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if open {
		if err := os.Chmod(string(d), 0o777); err != nil {
			return err
		}
	}
	return errors.Join(d.reserve("end", open), d.reserve("asked", false))
}

// room is the most that an account takes, unless its program gets many signals.
const room = 4096

// reserve makes an empty file that has room to grow, where the file system can promise that.
func (d Dir) reserve(name string, open bool) error {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if open {
		if err := f.Chmod(0o666); err != nil {
			return err
		}
	}
	err = allocate(f, room)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return &os.PathError{Op: "reserve", Path: f.Name(), Err: err}
	}
	return nil
}

// Note is the path of the note that publishing has begun.
func (d Dir) Note() string { return filepath.Join(string(d), "publishing") }

// Claim decides whether the program begins, at now. The first claim holds for ever: all others get an error that is
// fs.ErrExist.
func (d Dir) Claim(by Maker, now time.Time) error {
	return os.Symlink(fmt.Sprintf("%s %d", by, now.UnixNano()), filepath.Join(string(d), "claim"))
}

// Claimed returns the maker and the time of the claim.
func (d Dir) Claimed() (by Maker, at time.Time, err error) {
	text, err := os.Readlink(filepath.Join(string(d), "claim"))
	if errors.Is(err, fs.ErrNotExist) {
		return Nobody, at, nil
	}
	if err != nil {
		return Nobody, at, err
	}
	var who string
	var ns int64
	if _, err := fmt.Sscanf(text, "%s %d", &who, &ns); err != nil {
		return Nobody, at, fmt.Errorf("claim %q in %s: %w", text, d, err)
	}
	if by = Gantry; who == makers[Launcher] {
		by = Launcher
	}
	return by, time.Unix(0, ns), nil
}

// End is the launcher's account of a program.
type End struct {
	Over    bool           // the program has ended
	At      time.Time      // when
	Code    int            // its exit code; 128 and the signal if a signal ended it
	Signal  syscall.Signal // that ended it; 0: it returned Code itself
	Outside syscall.Signal // the last signal that reached it from outside before; 0: none
	Again   bool           // the container was started again
	Refused syscall.Errno  // why the program could not begin; 0: it began, or that is not known
	// Dropped is how many bytes of standard output and error were not kept. Truncated without them: the launcher was
	// killed before it had counted.
	Dropped   int64
	Truncated bool
	// FullTmp and FullShm are the sizes of the file systems of /tmp and /dev/shm if those had no room left when the
	// program failed.
	FullTmp, FullShm int64
}

// End reads the launcher's account. A line that is not whole does not count.
func (d Dir) End() (e End, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), "end"))
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	for line := range strings.Lines(string(text)) {
		var what string
		var n int
		var ns int64
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if _, err := fmt.Sscanf(line, "%s %d %d", &what, &n, &ns); err != nil {
			continue
		}
		switch what {
		case "again":
			e.Again = true
		case "refused":
			e.Refused = syscall.Errno(n)
		case "signal":
			if !e.Over {
				e.Outside = syscall.Signal(n)
			}
		case "dropped-1", "dropped-2":
			e.Truncated = true
			e.Dropped += int64(n)
		case "full-tmp":
			e.FullTmp = int64(n)
		case "full-shm":
			e.FullShm = int64(n)
		case "exit":
			e.Over, e.Code, e.At = true, n, time.Unix(0, ns)
		case "killed":
			e.Over, e.Code, e.Signal, e.At = true, 128+n, syscall.Signal(n), time.Unix(0, ns)
		}
	}
	return e, err
}

// Remove is the act of removing a container.
const Remove = "remove"

// Ask notes an act of gantry's before it is done: a signal, or Remove for the removal of the container of an attempt
// that is under way. Why is a number of the caller's own, which Asked returns.
func (d Dir) Ask(why uint8, act string) error {
	return d.add("asked", strconv.Itoa(int(why))+" "+act+"\n")
}

// add adds a text to a file, in one piece.
func (d Dir) add(name, text string) error {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Asked returns the first reason for which gantry acted on the attempt, 0 if it never did, and whether it removed the
// container.
func (d Dir) Asked() (why uint8, removed bool, err error) {
	text, err := os.ReadFile(filepath.Join(string(d), "asked"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	for line := range strings.Lines(string(text)) {
		number, act, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, e := strconv.ParseUint(number, 10, 8)
		if !ok || e != nil {
			continue
		}
		if removed = removed || act == Remove; why == 0 {
			why = uint8(n)
		}
	}
	return why, removed, err
}
