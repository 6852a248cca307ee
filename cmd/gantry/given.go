package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/trace"
)

// givenFlags are those by which the user gives commands variables, secrets and directories of this host.
func givenFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "env", Usage: "set `NAME[=VALUE]` in the environment of all commands, over that " +
			"of the workflow; without a value it is that of gantry's own environment (may be repeated)"},
		&cli.StringSliceFlag{Name: "env-file", Usage: "set environment variables from a `FILE` of lines " +
			"NAME[=VALUE]; --env overrides it (may be repeated)"},
		&cli.StringSliceFlag{Name: "secret", Usage: "`NAME[=FILE]`: give all commands a file /run/secrets/NAME with " +
			"the content of FILE, or else the value of the environment variable NAME (may be repeated)"},
		&cli.StringSliceFlag{Name: "mount", Usage: "`HOST:CONTAINER:ro`: let all commands read HOST, a file or " +
			"directory of this host, at the path CONTAINER (may be repeated)"},
		&cli.StringFlag{Name: "shell", Usage: "run commands of makeflows and WfFormat by `COMMAND` -c, such as " +
			"'bash -euo pipefail', or sh for makeflow's own behaviour (default: as the workflow says, else strict: " +
			"/bin/sh -e, with pipefail if it has that)"},
	}
}

// readGiven reads these flags into the settings. Of secrets these have the names only.
func readGiven(c *cli.Context, s *settings) (err error) {
	env := []string{}
	for _, file := range c.StringSlice("env-file") {
		text, err := readText(file)
		if err != nil {
			return exit.Inputf("--env-file: %w", err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
			if line == "" || line[0] == '#' {
				continue
			}
			if line, err = variable(line); err != nil {
				return exit.Inputf("--env-file: %s:%d: %w", file, i+1, err)
			}
			env = append(env, line)
		}
	}
	for _, text := range c.StringSlice("env") {
		if text, err = variable(text); err != nil {
			return exit.Usagef("--env: %w", err)
		}
		env = append(env, text)
	}
	s.Env = executor.MergeEnv(nil, env)
	for _, text := range c.StringSlice("mount") {
		m, err := mountOf(text)
		if err != nil {
			return exit.Inputf("--mount %s: %w", text, err)
		}
		s.Mounts = append(s.Mounts, m)
	}
	for _, text := range c.StringSlice("secret") {
		if text, err = secretOf(text); err != nil {
			return err
		}
		s.Secrets = append(s.Secrets, text)
	}
	if err := s.targets(); err != nil {
		return err
	}
	if s.Shell = c.String("shell"); c.IsSet("shell") {
		if _, err := trace.ShellWords(s.Shell); err != nil {
			return exit.Usagef("--shell %q: %w", s.Shell, err)
		}
	}
	_, err = s.secrets()
	return err
}

// secretOf checks NAME[=FILE], and returns it with an absolute FILE.
func secretOf(text string) (string, error) {
	name, file, ok := strings.Cut(text, "=")
	if !secretName.MatchString(name) {
		return "", exit.Usagef("--secret %q: a name has letters, digits, _, - and ., and does not begin "+
			"with a dot", name)
	}
	if !ok {
		return name, nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return "", exit.With(exit.Input, err)
	}
	return name + "=" + file, nil
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

// variable completes an environment variable. The error does not repeat the value.
func variable(text string) (string, error) {
	name, _, ok := strings.Cut(text, "=")
	if name == "" || strings.ContainsAny(name, " \t\x00") {
		return "", errors.New("write NAME or NAME=VALUE")
	}
	if ok {
		return text, nil
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("%s is not set in gantry's environment: set it, or write %s=VALUE", name, name)
	}
	return name + "=" + value, nil
}

// mountTarget refuses paths at which a container can have no directory of the host.
func mountTarget(to string) error {
	for _, taken := range []string{"/proc", "/sys", "/dev", "/tmp", "/.gantry", "/.gantry-task", "/run/secrets"} {
		if to == "/" || !path.IsAbs(to) || to == taken || strings.HasPrefix(to, taken+"/") {
			return errors.New("CONTAINER has to be an absolute path, outside of /proc, /sys, /dev, /tmp, /.gantry " +
				"and /run/secrets")
		}
	}
	return nil
}

// mountOf checks HOST:CONTAINER[:ro], and returns it with an absolute HOST.
func mountOf(text string) (string, error) {
	parts := strings.Split(text, ":")
	switch {
	case len(parts) == 3 && parts[2] != "ro":
		return "", errors.New("directories of the host are read-only: write HOST:CONTAINER:ro")
	case len(parts) != 2 && len(parts) != 3 || parts[0] == "":
		return "", errors.New("write HOST:CONTAINER:ro")
	}
	to := path.Clean(parts[1])
	if err := mountTarget(to); err != nil {
		return "", err
	}
	from, err := filepath.Abs(parts[0])
	if err == nil {
		from, err = filepath.EvalSymlinks(from)
	}
	if err != nil {
		return "", trace.Plain(err)
	}
	user := stage.Caller().Rights()
	if st, err := os.Stat(from); err != nil {
		return "", err
	} else if st.IsDir() {
		if _, _, err := user.Tree(from); err != nil {
			return "", err
		}
	} else if f, err := user.Open(from); err != nil {
		return "", err
	} else {
		f.Close()
	}
	return from + ":" + to, nil
}

// secrets reads the values of secrets, by name.
func (s *settings) secrets() (map[string]string, error) {
	values := map[string]string{}
	for _, text := range s.Secrets {
		name, file, ok := strings.Cut(text, "=")
		if !ok {
			if values[name], ok = os.LookupEnv(name); !ok {
				return nil, exit.Inputf("--secret %s: the environment variable %s is not set; set it, or name a "+
					"file: --secret %s=FILE", name, name, name)
			}
			continue
		}
		f, err := stage.Caller().Rights().Open(file)
		if err != nil {
			return nil, exit.Inputf("--secret %s: %s: %w", name, file, err)
		}
		value, err := readAtMost(f, 1<<20)
		f.Close()
		if err != nil {
			return nil, exit.Inputf("--secret %s: %s: %w", name, file, err)
		}
		values[name] = value
	}
	return values, nil
}

// readAtMost reads a small file.
func readAtMost(f io.Reader, most int64) (string, error) {
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(text)) > most {
		return "", fmt.Errorf("it has more than %d bytes", most)
	}
	return string(text), err
}

// targets refuses two mounts at one place.
func (s *settings) targets() error {
	var seen []string
	for _, m := range s.Mounts {
		_, to, _ := strings.Cut(m, ":")
		if slices.Contains(seen, to) {
			return exit.Usagef("--mount: two directories at %s", to)
		}
		seen = append(seen, to)
	}
	return nil
}
