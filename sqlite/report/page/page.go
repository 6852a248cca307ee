// Package page writes runs of the log as one self-contained HTML page: the outcome of a run and why it took so long,
// the times and places of all attempts, the load of the nodes, and all attempts as a table. It needs no network, and no
// server.
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"gantry/executor"
	"gantry/sqlite"
)

//go:embed web/*.js
var web embed.FS

var (
	//go:embed web/page.css
	style string
	//go:embed web/page.html
	body string
)

// modules are those of the page, each after those that it imports.
var modules = []string{"text", "data", "detail", "chart", "answer", "timeline", "load", "table", "types", "dag",
	"estimates", "deadlines", "others", "about", "results", "live", "main"}

// listModules are those of the page of a directory.
var listModules = []string{"text", "data", "live", "list"}

// Options are the contents of a page besides those of the log. The zero value adds nothing.
type Options struct {
	Now  time.Time
	Live bool // the page follows a run that is under way
	// Left reports whether a run that is called running has no gantry any more.
	Left func(run, runtime string) bool
	// Output returns the last lines that an attempt printed; nil if they are not known.
	Output func(run, workflow, task string, try int) []string
	// Command returns the command of a task.
	Command func(*executor.TaskSpec) string
	// Ran keeps the programs of a page between its polls; nil for none.
	Ran *Ran
	// Results returns the files that workflows of a run left, and how many more there are.
	Results func(run string, workflows []string) ([]Result, int)
	// Others returns simulations of a run with other policies; nil for none.
	Others func(ctx context.Context, run string) (*Others, error)
}

// Write writes a page of runs, in the order of their names. The page is made whole before the first byte is written.
func Write(ctx context.Context, w io.Writer, db *sqlite.DB, names []string, o Options) error {
	p, err := readAll(ctx, db, names, &o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	title := strings.Join(names, ", ")
	if n := db.Submission(); n != "" {
		title = "submission " + n
	}
	text, _, err := document(base64.StdEncoding.EncodeToString(pack(data, thorough)), title, modules, false)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func readAll(ctx context.Context, db *sqlite.DB, names []string, o *Options) (*payload, error) {
	p := &payload{Written: o.Now.UTC().Format(time.RFC3339), Live: o.Live}
	for _, name := range names {
		r, err := read(ctx, db, name, o)
		if err != nil {
			return nil, fmt.Errorf("read run %s: %w", name, err)
		}
		p.Runs = append(p.Runs, r)
	}
	return p, nil
}

// Data returns the data of the page of a run, compressed, and whether the run is over.
func Data(ctx context.Context, db *sqlite.DB, name string, o Options) (data []byte, over bool, err error) {
	p, err := readAll(ctx, db, []string{name}, &o)
	if err != nil {
		return nil, false, err
	}
	data, err = Packed(p)
	return data, p.Runs[0].State != string(sqlite.Running), err
}

// Document returns a page without data, which asks the server that it came from for them, and its policy.
func Document(title string) (text []byte, policy string, err error) {
	return document("", title, modules, true)
}

// List returns the page of a directory of runs. Its data are an object, packed.
func List(title string) (text []byte, policy string, err error) {
	return document("", title, listModules, true)
}

// Packed returns a value as the data of a page.
func Packed(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return pack(text, gzip.BestSpeed), err
}

// document puts the page together. Its policy lets the browser run this script and this style only, and load nothing,
// but for a live page the data from its server.
func document(data, title string, modules []string, live bool) (page []byte, policy string, err error) {
	script, err := bundle(modules)
	if err != nil {
		return nil, "", err
	}
	policy = fmt.Sprintf(
		"default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		hash(script), hash(style))
	if live {
		policy += "; connect-src 'self'"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<link rel=\"icon\" href=\"data:,\">\n"+
		"<title>%s · gantry</title>\n<style>%s</style>\n</head>\n%s"+
		"<script type=\"application/gzip\" id=\"data\">%s</script>\n"+
		"<script>%s</script>\n</html>\n", policy, html.EscapeString(title), style, body, data, script)
	return b.Bytes(), policy, nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

var (
	imports = regexp.MustCompile(`(?m)^import (\{.*\}) from '\./(\w+)\.js';$`)
	exports = regexp.MustCompile(`(?m)^export ((?:async )?function\*?|const) (\w+)`)
)

// bundle joins the modules into one script, as a file that is opened from disk cannot import others. Each module
// becomes a function that returns its exports.
func bundle(modules []string) (string, error) {
	var b strings.Builder
	b.WriteString("'use strict';\n")
	for _, m := range modules {
		text, err := web.ReadFile("web/" + m + ".js")
		if err != nil {
			return "", err
		}
		var names []string
		for _, match := range exports.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[2])
		}
		inner := exports.ReplaceAllString(imports.ReplaceAllString(string(text), "const $1 = module_$2;"), "$1 $2")
		fmt.Fprintf(&b, "const module_%s = (() => {\n%sreturn {%s};\n})();\n", m, inner, strings.Join(names, ", "))
	}
	return b.String(), nil
}
