package trace

import "gantry/reader"

// Most tasks and files are written as WfCommons and gantry write them, and lie whole in what is buffered. They are read
// at a glance, which leaves what task and file would; anything else is for these.

// glanceTask reads a task.
func (d *wfDocument) glanceTask() bool {
	q := wfGlance{d: d, Glance: d.j.Glance(), line: int32(d.j.Line)}
	at := 0
	q.object(func(key []byte) uint64 {
		near := &d.near[at%len(d.near)] // tasks have their keys in the same order
		if at++; near.name != string(key) {
			*near = namedKey{string(key), wfKeys[string(key)]}
		}
		known := &near.wfKey
		switch known.form {
		case wfValue:
			q.fact(known.kind, 0)
		case wfValues:
			q.facts(known.kind)
		case wfUses:
			q.uses()
		case wfCommandLine:
			q.command()
		case wfIgnored:
			q.Skip()
		default:
			q.Fail()
		}
		return known.bit
	})
	q.kept += (len(d.facts) + 2) * factKept
	return q.take()
}

// glanceFile reads a file of specification.files.
func (d *wfDocument) glanceFile() bool {
	q := wfGlance{d: d, Glance: d.j.Glance(), line: int32(d.j.Line)}
	f := q.file(nil, 0)
	q.kept += fileKept
	if !q.take() {
		return false
	}
	d.files = append(grown(d.b.in, d.files), f)
	return true
}

// wfGlance is a glance at a task or a file.
type wfGlance struct {
	reader.Glance
	d    *wfDocument
	line int32 // on which it begins
	kept int   // bytes
}

// take ends the glance. If it has failed, or there is no room for what it found, nothing was read.
func (q *wfGlance) take() bool {
	d := q.d
	if !q.Failed() {
		if d.b.keep(q.kept); d.b.lacks {
			d.b.keep(-q.kept)
			q.Fail()
		}
	}
	if q.Failed() {
		for _, n := range d.counted {
			d.b.all[n].counted = false
		}
	} else {
		d.j.Take(&q.Glance)
	}
	d.counted = d.counted[:0]
	return !q.Failed()
}

// object calls member with each key; that reads the value and returns the bit of the key.
func (q *wfGlance) object(member func(key []byte) uint64) {
	seen := uint64(0)
	q.Open('{')
	for first := true; q.More(first, '}'); first = false {
		bit := member(q.Key())
		if seen&bit != 0 {
			q.Fail() // it is given twice
		}
		seen |= bit
	}
}

// now is the line of what comes next.
func (q *wfGlance) now() int32 {
	q.Peek()
	return q.line + int32(q.Lines())
}

// count counts a text that recurs.
func (q *wfGlance) count(n int32, bytes int) {
	if x := &q.d.b.all[n]; !x.counted {
		x.counted = true
		q.kept += bytes
		q.d.counted = append(q.d.counted, n)
	}
}

// value reads a text or a number, the one at that position of several.
func (q *wfGlance) value(kind wfKind, position int) wfFact {
	f := wfFact{line: q.now(), kind: kind}
	text, quoted := q.Bytes()
	near := &q.d.guesses[kind][position%8]
	switch b := q.d.b; {
	case q.Failed():
	case quoted && kind.recurs():
		f.text = b.numberNear(near, text)
		q.count(f.text, sameKept)
	case kind.names():
		f.text = b.numberNear(near, text)
	default:
		f.text = b.apart(b.copied(text))
	}
	return f
}

func (q *wfGlance) fact(kind wfKind, position int) {
	f := q.value(kind, position)
	q.kept += len(q.d.said(f))
	q.d.facts = append(q.d.facts, f)
}

func (q *wfGlance) facts(kind wfKind) {
	q.Open('[')
	for i := 0; q.More(i == 0, ']'); i++ {
		q.fact(kind, i)
	}
}

// file reads a file, as a task's with its link.
func (q *wfGlance) file(link *string, position int) (f wfFile) {
	f.line = q.now()
	const isName, isLink, isSize, isSizeInBytes = 1, 2, 4, 8
	q.object(func(key []byte) uint64 {
		switch string(key) {
		case "name", "id":
			text, _ := q.Bytes()
			f.name = q.d.b.numberNear(&q.d.guesses[wfInput][position%8], text)
			return isName
		case "link":
			if link == nil {
				q.Skip()
				return isLink
			}
			text, _ := q.Bytes()
			*link = q.d.b.all[q.d.b.numberNear(&q.d.guesses[wfOutput][position%8], text)].text
			return isLink
		case "size":
			if size := q.value(wfSize, 0); f.size.text == 0 {
				f.size = size
			}
			return isSize
		case "sizeInBytes":
			if size := q.value(wfSize, 0); size.text != 0 {
				f.size = size
			}
			return isSizeInBytes
		}
		q.Fail()
		return 0
	})
	if !q.Failed() {
		q.count(f.name, sameKept+len(q.d.b.all[f.name].text))
	}
	return f
}

// uses reads the files of a task up to 1.4.
func (q *wfGlance) uses() {
	q.Open('[')
	for i := 0; q.More(i == 0, ']'); i++ {
		link := ""
		f := q.file(&link, i)
		q.d.use(f, link)
	}
}

// command reads the command of a task.
func (q *wfGlance) command() {
	d := q.d
	const isProgram, isArguments, isShell = 1, 2, 4
	q.object(func(key []byte) uint64 {
		n := len(d.facts)
		switch string(key) {
		case "program":
			if q.fact(wfProgram, 0); d.facts[n].text != 0 {
				d.facts = append(d.facts, wfFact{kind: wfCommand})
			}
			return isProgram
		case "arguments":
			if q.facts(wfArgument); len(d.facts) > n {
				d.facts = append(d.facts, wfFact{kind: wfCommand})
			}
			return isArguments
		case "shell":
			word := "false"
			if q.Truth() {
				word = "true"
			}
			d.facts = append(d.facts, wfFact{text: d.b.number(word), kind: wfShell})
			return isShell
		}
		q.Fail()
		return 0
	})
}
