// Command sbom writes the bill of materials of a Go binary, CycloneDX as JSON: the modules that the linker recorded in
// it, with their checksums, and the other libraries in it that -with names.
//
//	sbom -name gantry -version 1.2 -epoch 1700000000 -with libc=glibc@2.36 bin/gantry >gantry.cdx.json
//
// The same binary and flags give the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	name, version := flag.String("name", "gantry", "name of the program"), flag.String("version", "",
		"version of the program")
	epoch := flag.Int64("epoch", 0, "time of the document, seconds since 1970")
	var with []string
	flag.Func("with", "a further component, NAME@VERSION; may be repeated", func(s string) error {
		if !strings.Contains(s, "@") {
			return fmt.Errorf("%q: want NAME@VERSION", s)
		}
		with = append(with, s)
		return nil
	})
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: sbom [flags] BINARY")
		os.Exit(2)
	}
	if err := write(os.Stdout, flag.Arg(0), *name, *version, time.Unix(*epoch, 0).UTC(), with); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, path, name, version string, at time.Time, with []string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	bom := cdx.NewBOM()
	main := cdx.Component{BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}}
	bom.Metadata = &cdx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &main}
	components := []cdx.Component{library("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, library(m.Path, m.Version, m.Sum))
	}
	for _, c := range with {
		n, v, _ := strings.Cut(c, "@")
		components = append(components, cdx.Component{BOMRef: "pkg:generic/" + n + "@" + v,
			Type: cdx.ComponentTypeLibrary, Name: n, Version: v, PackageURL: "pkg:generic/" + n + "@" + v})
	}
	bom.Components = &components
	refs := make([]string, len(components))
	for i := range components {
		refs[i] = components[i].BOMRef
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &refs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// library is a Go module; sum is its h1: checksum of go.sum, "" if it has none.
func library(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
