package trace

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"gantry/trace/reader"
)

// CommandList is a list of commands that need nothing of each other: the lines of a file, or a template that is filled
// with the rows of a table.
type CommandList struct {
	Comma    rune   // between columns; 0: each line is a command
	Template string // {NAME} is a column, {#} the number of the row
	Outputs  []string
	// Exists reports whether a task can read a file by its name, beside the list or in another directory.
	Exists func(name string) bool
	Task   Task // the demands of all
}

// hole is a place in a template for a value.
type hole struct {
	from, to int // in the text
	column   int // -1: the number of the row
	form     string
	quote    byte // that it stands in; 0: none
}

// template is a text with holes.
type template struct {
	text  string
	holes []hole
}

var holeForms = []string{"//", "/.", ".", "/", ""}

var holeMark = regexp.MustCompile(`hole[0-9]+hole`)

var columnName = regexp.MustCompile(`^[A-Za-z_][\w-]*$`)

// parseTemplate finds the holes of a text. {{x}} is {x}, and ${x} the shell's.
func parseTemplate(text string, columns map[string]int) (*template, error) {
	t := &template{}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		end := strings.IndexByte(text[i:], '}') + i
		switch {
		case text[i] != '{' || end < i || i > 0 && text[i-1] == '$':
			b.WriteByte(text[i])
			continue
		case strings.HasPrefix(text[i:], "{{") && strings.HasPrefix(text[end:], "}}"):
			b.WriteString(text[i+1 : end+1])
			i = end + 1
			continue
		}
		inner, found := text[i+1:end], false
		for _, form := range holeForms {
			name, ok := strings.CutSuffix(inner, form)
			column, known := columns[name]
			if name == "#" {
				column, known = -1, true
			}
			if ok && known {
				t.holes = append(t.holes, hole{from: b.Len(), column: column, form: form})
				found = true
				break
			}
		}
		if !found && columnName.MatchString(inner) {
			return nil, fmt.Errorf("%q has {%s}, and the table no such column; {{%s}} stands for itself", text, inner,
				inner)
		}
		if found {
			fmt.Fprintf(&b, "hole%dhole", len(t.holes)-1)
			t.holes[len(t.holes)-1].to, i = b.Len(), end
		} else {
			b.WriteByte('{')
		}
	}
	t.text = b.String()
	return t, nil
}

// quoting finds out how the shell reads each hole, so that a value is always one text to it, and the type of the tasks.
func (t *template) quoting() (kind string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(t.text), "")
	if err != nil {
		return "", fmt.Errorf("the command is no text for a shell: %w", err)
	}
	safe, stack := make([]bool, len(t.holes)), []syntax.Node{}
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if call, ok := n.(*syntax.CallExpr); ok && kind == "" && len(call.Args) > 0 {
			kind = programOf(call)
		}
		stack = append(stack, n)
		quote, ok := quoteOf(stack)
		for i := range t.holes {
			h := &t.holes[i]
			if ok && int(n.Pos().Offset()) <= h.from && h.to <= int(n.End().Offset()) {
				h.quote, safe[i] = quote, true
			}
		}
		return true
	})
	for i, h := range t.holes {
		slashes := len(t.text[:h.from]) - len(strings.TrimRight(t.text[:h.from], `\`))
		if !safe[i] || h.quote != '\'' && slashes%2 == 1 {
			return "", fmt.Errorf("a value cannot be quoted where placeholder %d of %q stands: put it into a variable "+
				"before, x={NAME}", i+1, t.text)
		}
	}
	return kind, nil
}

// quoteOf is the quote around a text of a shell, the last of the stack. It is false where a value has no safe form.
func quoteOf(stack []syntax.Node) (quote byte, ok bool) {
	for i, n := range stack {
		switch x := n.(type) {
		case *syntax.ParamExp, *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop,
			*syntax.ExtGlob, *syntax.TestClause, *syntax.ArrayElem:
			return 0, false
		case *syntax.Assign:
			if x.Index != nil && i+1 < len(stack) && stack[i+1] == syntax.Node(x.Index) {
				return 0, false
			}
		case *syntax.CmdSubst:
			if x.Backquotes {
				return 0, false
			}
		case *syntax.Redirect:
			if x.Op == syntax.Hdoc || x.Op == syntax.DashHdoc {
				return 0, false
			}
		}
	}
	parent := syntax.Node(nil)
	if len(stack) > 1 {
		parent = stack[len(stack)-2]
	}
	switch x := stack[len(stack)-1].(type) {
	case *syntax.SglQuoted:
		return '\'', !x.Dollar
	case *syntax.Lit:
		switch p := parent.(type) {
		case *syntax.Word:
			return 0, true
		case *syntax.DblQuoted:
			return '"', !p.Dollar
		}
	}
	return 0, false
}

var (
	inDouble = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`")
	inSingle = strings.NewReplacer(`'`, `'\''`)
)

// fill puts values into the holes; quoted says that the text is for a shell.
func (t *template) fill(values []string, row int, quoted bool) string {
	var b strings.Builder
	at := 0
	for _, h := range t.holes {
		b.WriteString(t.text[at:h.from])
		at = h.to
		value := fmt.Sprint(row)
		if h.column >= 0 {
			value = values[h.column]
		}
		switch h.form {
		case "/":
			value = path.Base(value)
		case ".":
			value = strings.TrimSuffix(value, path.Ext(value))
		case "/.":
			value = strings.TrimSuffix(path.Base(value), path.Ext(value))
		case "//":
			value = path.Dir(value)
		}
		switch {
		case !quoted:
			b.WriteString(value)
		case h.quote == '"':
			inDouble.WriteString(&b, value)
		case h.quote == '\'':
			inSingle.WriteString(&b, value)
		default:
			b.WriteByte('\'')
			inSingle.WriteString(&b, value)
			b.WriteByte('\'')
		}
	}
	return b.String() + t.text[at:]
}

// Read reads the list. The workflow has a task for each command.
func (l *CommandList) Read(r io.Reader, source string, maxInput int64) (*Workflow, []Fault, error) {
	b := newBuilder(&Workflow{Source: source, Label: label(source), Name: label(source), Format: Makeflow},
		ReadOptions{})
	in := reader.Open(r, maxInput)
	b.in, b.line = in, 1
	if l.Comma == 0 {
		l.lines(b)
	} else {
		l.rows(b)
	}
	if len(b.wf.Tasks) == 0 && !b.faults.HasErrors() {
		b.faults.Warn("no-tasks", 1, "", "the list has no command: nothing runs")
	}
	b.resolve()
	if in.Err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", source, in.Err)
	}
	return b.wf, b.faults.Sorted(), nil
}

// lines reads a command a line. Lines that are blank or begin with # are none.
func (l *CommandList) lines(b *builder) {
	t := reader.NewTable(b.in, '\n', &b.faults)
	for n := 1; t.Next() && !b.full(t.Line); n++ {
		if line := string(t.Fields[0]); line[0] != '#' {
			l.add(b, line, "", nil, t.Line)
		}
	}
}

// rows fills the template with each row of a table, whose first has the names of columns.
func (l *CommandList) rows(b *builder) {
	in := csv.NewReader(bufio.NewReader(io.LimitReader(b.in, 1<<40)))
	in.Comma, in.ReuseRecord, in.LazyQuotes = l.Comma, true, l.Comma == '\t'
	head, err := in.Read()
	columns := map[string]int{}
	for i, name := range head {
		if name = strings.TrimSpace(name); name != "" {
			if _, twice := columns[name]; twice {
				err = fmt.Errorf("two columns are called %q", name)
			}
			columns[strings.Clone(name)] = i
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the table is empty: its first line has the names of columns")
	}
	var command *template
	kind := ""
	if err == nil {
		if command, err = parseTemplate(l.Template, columns); err == nil {
			kind, err = command.quoting()
		}
	}
	outputs := make([]*template, len(l.Outputs))
	for i := 0; i < len(outputs) && err == nil; i++ {
		outputs[i], err = parseTemplate(l.Outputs[i], columns)
	}
	if err != nil {
		b.faults.Fail("bad-table", 1, "", "%v", err)
		return
	}
	for n := 1; !b.full(1); n++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.faults.Fail("bad-table", 0, "", "%v", err)
			return
		}
		line, _ := in.FieldPos(0)
		if i := slices.IndexFunc(row, func(v string) bool { return strings.ContainsRune(v, 0) }); i >= 0 {
			b.faults.Fail("bad-table", line, "", "a value with a zero byte, which no command can have")
			return
		}
		var writes []string
		for _, o := range outputs {
			writes = append(writes, o.fill(row, n, false))
		}
		l.add(b, command.fill(row, n, true), kind, writes, line)
	}
}

// add adds a task. It reads the files among the words of its command that exist, and writes those that its output goes
// to.
func (l *CommandList) add(b *builder, command, kind string, writes []string, line int) {
	if len(command) > reader.MaxText {
		b.faults.Fail("bound", line, "", "%s", reader.TooLong)
		return
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil {
		b.faults.Fail("syntax", line, "", "the command is no text for a shell: %v", err)
		return
	}
	var reads []string
	syntax.Walk(file, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.Redirect:
			name, ok := staticWord(x.Word)
			if x.Op != syntax.RdrIn && x.Hdoc == nil && ok && plainOutput(x.Op) {
				if SafeName(name) && !slices.Contains(writes, name) {
					writes = append(writes, name)
				}
				return false
			}
		case *syntax.CallExpr:
			if kind == "" && len(x.Args) > 0 {
				kind = programOf(x)
			}
		case *syntax.Word:
			if name, ok := staticWord(x); ok {
				reads = append(reads, name)
			}
		}
		return true
	})
	kind = cmp.Or(kind, "command")
	b.keep(len(command))
	t := b.task(fmt.Sprintf("%s-%d", kind, len(b.wf.Tasks)+1), line)
	if t == nil {
		return
	}
	id := t.ID
	*t = l.Task
	t.ID, t.Name, t.Line, t.Kind, t.Retries = id, id, line, b.same(kind), -1
	t.Command, t.Shell, t.Known = []string{command}, true, t.Known|Command
	for _, name := range writes {
		if f := b.file(name); b.wf.Files[f].Producer >= 0 && b.wf.Files[f].Producer != int32(len(b.wf.Tasks)-1) {
			b.faults.Fail("duplicate-output", line, id, "%s is also written by the command on line %d", name,
				b.wf.Tasks[b.wf.Files[f].Producer].Line)
		} else {
			b.writes(f)
		}
	}
	for _, name := range reads {
		if SafeName(name) && !slices.Contains(writes, name) && l.Exists(name) {
			b.reads(b.file(name))
		}
	}
}

// programOf is the type of tasks with a command, by the name of its program.
func programOf(call *syntax.CallExpr) string {
	name, ok := staticWord(call.Args[0])
	if name = path.Base(name); !ok || holeMark.MatchString(name) || name == "/" {
		return "command"
	}
	return name
}

func plainOutput(op syntax.RedirOperator) bool {
	return slices.Contains([]syntax.RedirOperator{syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll,
		syntax.AppAll}, op)
}

// staticWord is a word that the shell takes as it is; false where it does more with it.
func staticWord(w *syntax.Word) (string, bool) {
	if w == nil || !fixedWord(w, expand.ListEnviron()) {
		return "", false
	}
	text, err := expand.Literal(nil, w)
	return text, err == nil && text != ""
}
