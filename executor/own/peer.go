package own

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gantry/trace/shown"
)

// Bounds of what programs say and take.
const (
	mostAnswer = 64 << 20        // bytes of a line
	mostWords  = 4 << 10         // bytes of a line of standard error
	farewell   = 2 * time.Second // to end by itself, once its input has ended
)

// Say prints a line of a program's standard error, with the program's name in front.
var Say = func(line string) { fmt.Fprintln(os.Stderr, line) }

// wire is an end of a pipe or of a socket.
type wire interface {
	io.ReadWriteCloser
	syscall.Conn
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// peer is a program that was started, or one that listens on a socket.
type peer struct {
	to, from wire
	read     *bufio.Reader
	cmd      *exec.Cmd // nil: it was there before
	gone     chan struct{}
	words    words
}

// start starts the program, in a process group of its own and without a shell, or connects to a socket of that name.
func start(path string) (*peer, error) {
	p := &peer{gone: make(chan struct{})}
	if about, err := os.Stat(path); err == nil && about.Mode().Type() == os.ModeSocket {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return nil, err
		}
		p.to, p.from = conn.(*net.UnixConn), conn.(*net.UnixConn)
		p.read = bufio.NewReaderSize(p.from, 64<<10)
		return p, nil
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), to.Close())
	}
	p.words.name = filepath.Base(path)
	p.cmd = exec.Command(path)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, &p.words
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = farewell // for those who hold its standard error
	err = p.cmd.Start()
	in.Close()
	out.Close()
	if err != nil {
		to.Close()
		from.Close()
		return nil, fmt.Errorf("start it: %w", err)
	}
	p.to, p.from, p.read = to, from, bufio.NewReaderSize(from, 64<<10)
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// end closes the input of the program, waits a little for it to end, and ends its process group.
func (p *peer) end() {
	p.to.Close()
	if p.cmd != nil {
		select {
		case <-p.gone:
		case <-time.After(farewell):
		}
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.gone
	}
	p.from.Close()
}

// speaks reports whether the program has said something that nobody has read. At its end alone it has not.
func (p *peer) speaks() bool {
	said := p.read.Buffered() > 0
	if raw, err := p.from.SyscallConn(); err == nil && !said {
		_ = raw.Control(func(fd uintptr) {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, _ = unix.Poll(poll, 0)
			said = poll[0].Revents&(unix.POLLIN|unix.POLLHUP) == unix.POLLIN
		})
	}
	return said
}

func (p *Policy) ask(ctx context.Context, message, into any) error {
	if p.peer.speaks() {
		return errors.New("it has said more than one line to a message")
	}
	limit := time.Now().Add(p.timeout)
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_ = p.peer.to.SetWriteDeadline(limit)
	_ = p.peer.from.SetReadDeadline(limit)
	defer context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_ = p.peer.to.SetWriteDeadline(past)
		_ = p.peer.from.SetReadDeadline(past)
	})()
	if _, err := p.peer.to.Write(append(line, '\n')); err != nil {
		return p.broken(ctx, "reads no message", err)
	}
	text, err := p.answer()
	if err != nil {
		return p.broken(ctx, "does not answer", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(into); err == nil && len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		err = errors.New("there is more than one value on the line")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s: %s is of another type or size", cmp.Or(wrong.Field, "it"), wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("its answer is no message of the protocol: %w; it begins with %q: standard output is for "+
			"answers alone, one line each", err, shown.Short(strings.TrimSpace(string(text)), 60))
	}
	return nil
}

var errLong = fmt.Errorf("a line has more than %d MiB", mostAnswer>>20)

func (p *Policy) answer() ([]byte, error) {
	p.line = p.line[:0]
	for {
		part, err := p.peer.read.ReadSlice('\n')
		p.line = append(p.line, part...)
		switch {
		case len(p.line) > mostAnswer:
			return nil, errLong
		case err == nil:
			return p.line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// broken says why a program was not heard.
func (p *Policy) broken(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it %s within %v: make it faster, or give it more time with timeout=60s", what, p.timeout)
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("it %s: %w", what, err)
	case p.peer.cmd == nil:
		return fmt.Errorf("it %s: it has closed the socket", what)
	}
	select {
	case <-p.peer.gone:
		return fmt.Errorf("it %s: it has ended (%v)%s", what, p.peer.cmd.ProcessState, p.peer.words.lastly())
	case <-time.After(farewell):
	}
	return fmt.Errorf("it %s: it has closed its standard input or output%s", what, p.peer.words.lastly())
}

// words takes the standard error of a program.
type words struct {
	name string
	mu   sync.Mutex
	part []byte
	last string
}

// Write implements io.Writer.
func (w *words) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(text) {
		rest, whole := bytes.CutSuffix(line, []byte("\n"))
		if w.part = append(w.part, rest...); whole || len(w.part) > mostWords {
			w.last = shown.Line(string(w.part))
			Say(w.name + ": " + w.last)
			w.part = w.part[:0]
		}
	}
	return len(text), nil
}

// lastly says what the last line was.
func (w *words) lastly() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == "" && len(w.part) == 0 {
		return ""
	}
	if len(w.part) > 0 {
		w.last = shown.Line(string(w.part))
	}
	return "; its last words: " + w.last
}
