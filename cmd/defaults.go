package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/own"
	"gantry/trace/reader"
	"gantry/trace/shown"
	"gantry/trace/spelling"
)

const (
	defaultsFile  = "gantry.yaml"
	mostDefaults  = 64 << 10 // bytes
	reuseVariable = "GANTRY_REUSE"
)

// defaultable are the options of gantry run that a file may set: none of them shows a program more of this host, or
// runs anything on it, for a folder may come from others.
var defaultable = strings.Fields("disk enforce-walltime estimator fail-fast grace image max-output no-prediction " +
	"policy pull results results-dir retries retry reuse runtime scratch shell starts strict tmp")

// readDefaults takes options from the environment and from the file gantry.yaml of the working directory. The
// command line counts before the environment, and that before the file.
func readDefaults(c *cli.Context) error {
	var taken []string
	take := func(name string, values ...string) error {
		for i, v := range values {
			if i == 0 && c.IsSet(name) {
				return nil
			}
			if err := c.Set(name, v); err != nil {
				return fmt.Errorf("%s: %q cannot be its value", name, v)
			}
		}
		taken = append(taken, name)
		return nil
	}
	if text := os.Getenv(reuseVariable); text != "" {
		on, err := strconv.ParseBool(text)
		if err == nil {
			err = take("reuse", strconv.FormatBool(on))
		}
		if err != nil {
			return exit.Usagef("%s=%s: give 1 or 0", reuseVariable, text)
		}
	}
	n := len(taken)
	if err := readDefaultsFile(take); err != nil {
		return exit.With(exit.Input, err)
	}
	if len(taken) > n && !c.Bool("quiet") {
		fmt.Fprintf(c.App.ErrWriter, "options of %s: %s\n", defaultsFile, strings.Join(taken[n:], ", "))
	}
	if c.App.Metadata == nil {
		c.App.Metadata = map[string]any{}
	}
	c.App.Metadata[defaultsFile] = taken
	return nil
}

// readDefaultsFile gives the options of the file, if it is there.
func readDefaultsFile(take func(name string, values ...string) error) error {
	if st, err := os.Stat(defaultsFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no ordinary file", defaultsFile)
	}
	f, err := openText(defaultsFile)
	if err != nil {
		return fmt.Errorf("options of this directory: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostDefaults+1))
	if err == nil && len(text) > mostDefaults {
		err = fmt.Errorf("%s: it has more than %d bytes", defaultsFile, mostDefaults)
	}
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var faults reader.Faults
	if y, root := reader.ParseYAML(text, &faults); root != nil {
		y.Mapping(root, "the file", func(key string, v *reader.Node) {
			line, values := y.KeyLine, []string{}
			if y.IsList(v) {
				y.Sequence(v, key, func(v *reader.Node) { values = append(values, y.Text(v)) })
			} else {
				values = append(values, y.Text(v))
			}
			switch {
			case !slices.Contains(defaultable, key):
				hint := ""
				if near := spelling.Nearest(key, defaultable); near != "" {
					hint = "; did you mean " + near + "?"
				}
				faults.Fail("unknown-key", line, "", "%s is no option that a file may set: give it on the command "+
					"line%s", shown.Line(key), hint)
			case y.IsList(v) && key != "results" && key != "retry":
				faults.Fail("wrong-type", line, "", "%s has one value, not a list", key)
			case key == "results-dir" && !ownDirectory(values[0]):
				faults.Fail("path", line, "", "results-dir: name a directory in this one, without slashes, and no "+
					"link; or give it on the command line")
			case key == "image" && values[0] == executor.HostImage:
				faults.Fail("value", line, "", "image: host shows programs of this host: give it on the command line")
			case key == "policy" && own.Is(values[0]):
				faults.Fail("program", line, "", "policy: this one is a program of this host: give it on the "+
					"command line")
			default:
				if err := take(key, values...); err != nil {
					faults.Fail("value", line, "", "%s", err)
				}
			}
		})
	}
	if all := faults.Sorted(); reader.HasErrors(all) {
		return fmt.Errorf("%s:%d: %s", defaultsFile, all[0].Line, all[0].Message)
	}
	return nil
}

// ownDirectory reports whether a name is that of a directory in the working directory, or of nothing there.
func ownDirectory(name string) bool {
	st, err := os.Lstat(name)
	return filepath.IsLocal(name) && filepath.Base(name) == name && (err != nil || st.IsDir())
}
