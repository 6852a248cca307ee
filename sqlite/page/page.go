// Package page writes runs of the log as one self-contained HTML page: what a run came to and why it took so long,
// when every attempt was where, what the nodes had to do, and all attempts as a table. It needs no network, and no
// server.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"time"

	"gantry/sqlite"
)

//go:embed web
var web embed.FS

// modules are those of the page, each after those that it imports.
var modules = []string{"text", "data", "answer", "timeline", "load", "table", "dag", "estimates", "about", "main"}

// Write writes a page of runs, in the order of their names. The page is made whole before the first byte is written.
func Write(ctx context.Context, w io.Writer, db *sqlite.DB, names []string, now time.Time) error {
	p := struct {
		Written string `json:"written"`
		Runs    []*run `json:"runs"`
	}{Written: now.UTC().Format(time.RFC3339)}
	for _, name := range names {
		r, err := read(ctx, db, name)
		if err != nil {
			return fmt.Errorf("read run %s: %w", name, err)
		}
		p.Runs = append(p.Runs, r)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	text, err := document(pack(data), strings.Join(names, ", "))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// document puts the page together. Its policy lets the browser run this script and this style only, and load nothing.
func document(data, title string) ([]byte, error) {
	script, err := bundle()
	if err != nil {
		return nil, err
	}
	style, err := web.ReadFile("web/page.css")
	if err != nil {
		return nil, err
	}
	body, err := web.ReadFile("web/page.html")
	if err != nil {
		return nil, err
	}
	policy := fmt.Sprintf(
		"default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		hash(script),
		hash(string(style)),
	)
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"+
		"<title>%s · gantry</title>\n<style>%s</style>\n</head>\n%s"+
		"<script type=\"application/gzip\" id=\"data\">%s</script>\n"+
		"<script>%s</script>\n</html>\n", policy, html.EscapeString(title), style, body, data, script)
	return b.Bytes(), nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

var linkage = regexp.MustCompile(`(?m)^import .*;\n|^export (default )?`)

// bundle joins the modules into one script: a file that is opened from disk cannot import others. Names are unique
// over all modules.
func bundle() (string, error) {
	var b strings.Builder
	b.WriteString("'use strict';\n(() => {\n")
	for _, m := range modules {
		text, err := web.ReadFile("web/" + m + ".js")
		if err != nil {
			return "", err
		}
		b.WriteString(linkage.ReplaceAllString(string(text), ""))
	}
	b.WriteString("})();\n")
	return b.String(), nil
}

// pack compresses data and writes it as text.
func pack(data []byte) string {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is a constant
	_, _ = z.Write(data)                                  // into memory
	_ = z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// column is a list of numbers as the differences from one to the next, each a varint: what changes little takes a
// byte.
type column []int64

// MarshalJSON writes the varints as base64.
func (c column) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, len(c)+16)
	last := int64(0)
	for _, v := range c {
		out = binary.AppendVarint(out, v-last)
		last = v
	}
	return json.Marshal(out)
}
