package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"gantry/cmd/internal/exit"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/stage"
	"gantry/trace"
)

// SecretOf checks NAME[=FILE], and returns it with an absolute FILE.
func SecretOf(text string) (string, error) {
	name, file, ok := strings.Cut(text, "=")
	if !secretName.MatchString(name) {
		return "", fmt.Errorf("%q: a name has letters, digits, _, - and ., and does not begin with a dot", name)
	}
	if !ok {
		return name, nil
	}
	file, err := filepath.Abs(file)
	return name + "=" + file, exit.Or(exit.Input, err)
}

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

// mountTarget refuses paths at which a container can have no directory of the host.
func mountTarget(to string) error {
	for _, taken := range []string{"/proc", "/sys", "/dev", "/tmp", "/.gantry", "/.gantry-task", "/run/secrets"} {
		if to == "/" || !path.IsAbs(to) || container.Inside(to, taken) {
			return errors.New("CONTAINER has to be an absolute path, outside of /proc, /sys, /dev, /tmp, /.gantry " +
				"and /run/secrets")
		}
	}
	return nil
}

// MountOf checks HOST:CONTAINER[:ro], and returns it with an absolute HOST.
func MountOf(text string) (string, error) {
	m := executor.ParseMount(strings.TrimSuffix(text, ":ro"))
	switch {
	case m.InPlace || strings.Contains(m.To, ":"):
		return "", errors.New("directories of the host are read-only: write HOST:CONTAINER:ro")
	case m.From == "" || m.To == "":
		return "", errors.New("write HOST:CONTAINER:ro")
	}
	to := path.Clean(m.To)
	if err := mountTarget(to); err != nil {
		return "", err
	}
	from, err := filepath.Abs(m.From)
	if err == nil {
		from, err = filepath.EvalSymlinks(from)
	}
	if err != nil {
		return "", trace.Plain(err)
	}
	return from + ":" + to, stage.Caller().Rights().Shown(from)
}

// SecretValues reads the values of secrets, by name.
func (s *Settings) SecretValues() (map[string]string, error) {
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

// Targets refuses two mounts at one place, and one in the other.
func (s *Settings) Targets() error {
	var seen []string
	for _, m := range s.Mounts {
		to := executor.ParseMount(m).To
		for _, was := range seen {
			if container.Inside(to, was) || container.Inside(was, to) {
				return exit.Usagef("--mount: the directories at %s and %s are one in the other: mount one "+
					"elsewhere", was, to)
			}
		}
		seen = append(seen, to)
	}
	return nil
}

// Mountable says why containers of a submission to the server of a directory cannot have a mount.
func Mountable(home string, sub *executor.Submission, text string) error {
	m := executor.ParseMount(text)
	rights := RightsOf(sub, stage.ProgramUser())
	switch {
	case !m.InPlace && sub.By == nil:
		_, err := MountOf(text)
		return err
	case m.InPlace && m.From != m.To:
		return errors.New("a directory of a job is at its own path")
	case container.Inside(m.From, home), container.Inside(m.To, home):
		return fmt.Errorf("it is in %s, gantry's own directory", home)
	case container.Inside(home, m.To) && m.From != m.To:
		return fmt.Errorf("it hides %s, gantry's own directory", home)
	case m.InPlace:
		_, err := rights.Directory(m.From, m.Writable)
		return err
	}
	for _, path := range []string{m.From, m.To} {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsAny(path, ":,\n\x00") {
			return fmt.Errorf("%q is not an absolute path in its shortest form, without colon, comma or line end", path)
		}
	}
	if err := mountTarget(m.To); err != nil {
		return err
	}
	_, err := rights.Visible(m.From)
	return err
}
