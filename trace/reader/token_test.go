package reader

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Texts and lines are added to the tokens of a library.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, -0.5e+7, true, null, "\u00e9\ud83d\ude00x\n"]}`, `[1 2]`, `{"a" 1}`,
		"[1,\n\n -2 , {\"a\": {\"b\"\n:\n3}, \"c\":[[4,3]]}]", "[\n1 NaN]", `{"a": 1, "a": 2}`,
		`01`, `1.`, `"\x"`, "[\"\t\"]", `{} x`, `nul`, `[,]`, `-`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > MaxDepth { // beyond the bounds of keys and depth
			return
		}
		j := NewJSON(bufio.NewReader(strings.NewReader(text)))
		err := j.Skip()
		if err == nil {
			err = j.End()
		}
		if valid := jsontext.Value(text).IsValid(); valid != (err == nil) {
			t.Fatalf("%q: valid %v, but %v", text, valid, err)
		}
		if want := 1 + strings.Count(strings.TrimRight(text, " \t\r\n"), "\n"); err == nil && j.Line() != want {
			t.Fatalf("%q ends on line %d, want %d", text, j.Line(), want)
		}
		var want string
		if json.Unmarshal([]byte(text), &want) == nil && text != "null" && err == nil {
			if got, err := NewJSON(bufio.NewReader(strings.NewReader(text))).Text(); got != want || err != nil {
				t.Fatalf("%q is %q (%v), want %q", text, got, err, want)
			}
		}
	})
}

// What both accept they tell the same way.
func FuzzXMLAgreesWithTheStandardLibrary(f *testing.F) {
	for _, s := range []string{`<?xml version="1.0"?><a b="1" c='&lt;&#65;'>x<d/>y<!-- z --><![CDATA[<]]></a>`,
		"<a>\r\n</a>\n", `<a b=1/>`, `<a b="<"/>`, `<a></b>`, `<a/><b/>`,
		`<a>&x;</a>`, `<n:a n:b="1" b="2"/>`, "<a\n b = \"1\"\n/>", `<a`, `<a>]]></a>`,
		`<!DOCTYPE a [<!ELEMENT a (b)>]><a/>`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ours, err := flatOurs(text)
		if err != nil {
			return // stricter in places, which the next check bounds
		}
		theirs, err := flatTheirs(text)
		if err != nil {
			return // more lenient in places that do not matter for DAX, such as "--" in comments
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%q: %q, the standard library has %q", text, ours, theirs)
		}
	})
}

func TestXMLTokensAgreeWithTheStandardLibrary(t *testing.T) {
	for _, text := range []string{`<?xml version="1.0"?><a b="1" c='&lt;&#65;'>x<d/>y<!-- z --><![CDATA[<]]></a>`,
		"<a>\r\n</a>\n", `<n:a n:b="1" b="2"/>`, "<a\n b = \"1\"\n/>",
		`<!DOCTYPE a [<!ELEMENT a (b)>]><a/>`, "<a>" + strings.Repeat("long ", 40000) + "</a>", `<a b="` +
			strings.Repeat("long>", 40000) + `"/>`,
		"<a><!-- " + strings.Repeat("long - ", 40000) + "--></a>",
		`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n<é ü='ß'>日本</é>"} {
		ours, err := flatOurs(text)
		if err != nil {
			t.Errorf("%.80q: %v", text, err)
		}
		if theirs, err := flatTheirs(text); err != nil || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%.80q: %.200q, the standard library has %.200q %v", text, ours, theirs, err)
		}
	}
	for _, text := range []string{`<a b=1/>`, `<a b="<"/>`, `<a></b>`, `<a/><b/>`, `<a>&x;</a>`, `<a`, `<a>`, ``, `x`,
		`</a>`, `<a b/>`, `<a b="1" c="2" d="3" ="4"/>`, `<a "b"/>`, `<a b="1" c="2" b="3"/>`, `<a:/>`, "<a/>x",
		"<a>\x01</a>", "<a>\xff</a>", `<a>&#xd800;</a>`} {
		if got, err := flatOurs(text); err == nil {
			t.Errorf("%q was taken as %q", text, got)
		}
	}
}

func flatOurs(text string) (out []string, err error) {
	x := NewXML(bufio.NewReader(strings.NewReader(text)))
	for {
		token, err := x.Next()
		if err != nil {
			return nil, err
		}
		switch token {
		case XMLEOF:
			return out, nil
		case XMLEnd:
			out = append(out, "/"+x.Name)
		case XMLText:
			out = text1(out, string(x.Text))
		case XMLStart:
			out = append(out, "<"+x.Name)
			for _, a := range x.Attrs {
				out = append(out, string(a.Name)+"="+string(a.Value))
			}
		}
	}
}

// text1 joins texts that follow each other.
func text1(out []string, text string) []string {
	if text == "" {
		return out
	}
	if n := len(out); n > 0 && strings.HasPrefix(out[n-1], "#") {
		out[n-1] += text
		return out
	}
	return append(out, "#"+text)
}

func flatTheirs(text string) (out []string, err error) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) { return in, nil }
	depth := 0
	for {
		token, err := d.RawToken()
		if err == io.EOF && depth == 0 {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			out = append(out, "<"+e.Name.Local)
			for _, a := range e.Attr {
				if a.Name.Space == "" && !strings.Contains(a.Name.Local, ":") {
					out = append(out, a.Name.Local+"="+a.Value)
				}
			}
		case xml.EndElement:
			depth--
			out = append(out, "/"+e.Name.Local)
		case xml.CharData:
			if depth > 0 && len(bytes.TrimSpace(e)) >= 0 && len(e) > 0 {
				out = text1(out, string(e))
			}
		}
	}
}
