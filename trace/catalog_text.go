package trace

import (
	"bytes"
	"regexp"
	"strings"

	"gantry/trace/reader"
)

// textReplicas reads a replica catalog of type File or Regex: a line per replica, with the name of a file, its location
// and attributes.
func (b *builder) textReplicas(c *catalog, data []byte) {
	i := -1
	for raw := range bytes.Lines(data) {
		i++
		line := string(bytes.TrimSpace(raw))
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) > reader.MaxText {
			b.catalogFault(c, i+1, "bound", "%s", reader.TooLong)
			return
		}
		words, err := splitWords(strings.ReplaceAll(line, `\`, `\\`))
		if err != nil || len(words) < 2 {
			b.catalogFault(c, i+1, "catalog", "it takes the name of a file and its location: %q", line)
			return
		}
		is, regex, kind, sum := replica{pfns: words[1:2]}, false, "sha256", ""
		for _, a := range words[2:] {
			name, value, ok := strings.Cut(a, "=")
			switch {
			case !ok:
				b.catalogFault(c, i+1, "catalog", "attribute %q is not NAME=VALUE", a)
				return
			case name == "regex":
				regex = strings.EqualFold(value, "true")
			case name == "checksum.type":
				kind = value
			case name == "checksum.value":
				sum = value
			}
		}
		if sum != "" {
			is.sha256 = b.checksum(c, i+1, kind, sum)
		}
		b.keep(fileKept + len(line))
		if regex {
			b.addPattern(c, i+1, words[0], is)
		} else {
			b.addReplica(c, words[0], is)
		}
	}
}

// textReplica matches the beginning of a replica catalog of type File, and propertyLine that of properties in the same
// form.
var (
	textReplica  = regexp.MustCompile(`\A(?:\s|#[^\n]*\n)*(?:"[^"\n]*"|[^\s=:]+)[ \t]+"?(?:/|[a-z]+:/)`)
	propertyLine = regexp.MustCompile(`\A(?:\s|#[^\n]*\n)*(?:pegasus|env|condor|globus|dagman)\.`)
)

// textCatalog matches the beginning of a transformation catalog of type Text.
var textCatalog = regexp.MustCompile(`(?i)\A(?:\s|#[^\n]*\n)*(?:tr|cont)\s+[^\s{]+\s*\{`)

// converted names the program that writes a catalog of Pegasus 4 as one of Pegasus 5; "" for other catalogs.
func converted(data []byte) string {
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")):
		return "it is XML, as site catalogs of Pegasus 4 are: pegasus-sc-converter writes it as YAML"
	case textCatalog.Match(data):
		return "it is a transformation catalog of type Text, of Pegasus 4: pegasus-tc-converter writes it as YAML"
	}
	return ""
}
