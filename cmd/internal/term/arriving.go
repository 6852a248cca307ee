package term

import (
	"fmt"
	"os"
	"sync"
	"time"

	"gantry/executor/container/fetch"
	"gantry/trace/shown"
)

// Arrival shows how images and files arrive: on a terminal one line that is redrawn, elsewhere a line every ten
// seconds.
type Arrival struct {
	*Progress
	noun, doing string
	mu          sync.Mutex
	parts       map[string][2]int64 // bytes done and known of, by image
	next        time.Time           // plain lines: when the next is due
}

// Arrival shows how things of a kind arrive, such as images.
func (p *Progress) Arriving(noun, doing string) *Arrival {
	return &Arrival{Progress: p, noun: noun, doing: doing, parts: map[string][2]int64{}}
}

// pullStep is the time between two plain lines.
const pullStep = 10 * time.Second

// Begin notes that something is fetched.
func (p *Arrival) Begin(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.IsZero() {
		p.next = time.Now().Add(pullStep)
	}
	p.Note("%s", text)
}

// Update takes in how many bytes of a thing are here.
func (p *Arrival) Update(ref string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[ref] = [2]int64{done, total}
	done, total = 0, 0
	for _, part := range p.parts {
		done, total = done+part[0], total+part[1]
	}
	p.draw(done, total)
}

// draw shows the sum over all images.
func (p *Arrival) draw(done, total int64) {
	p.Progress.mu.Lock()
	defer p.Progress.mu.Unlock()
	if p.quiet {
		return
	}
	so := fmt.Sprintf("%s %s: %s of %s", p.doing, Plural(len(p.parts), p.noun), shown.Size(done), shown.Size(total))
	if !Terminal(os.Stderr) {
		if now := time.Now(); now.After(p.next) {
			p.next = now.Add(pullStep)
			p.line("%s", so)
		}
		return
	}
	if p.bar == nil {
		p.bar = NewBar(os.Stderr, total, false)
	}
	p.bar.Describe(so)
	p.bar.ChangeMax64(total)
	_ = p.bar.Set64(done)
}

// End notes that an image is here.
func (p *Arrival) End(i fetch.Image) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Note("%s image %s (%s, %s)", i.Source, ImageName(i.Ref, i.Digest), shown.Size(i.Bytes),
		i.Took.Round(100*time.Millisecond))
}

// Close clears the line of the terminal.
func (p *Arrival) Close() { p.Progress.End() }
