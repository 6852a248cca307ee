package docker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	dockercredentials "github.com/docker/cli/cli/config/credentials"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker-credential-helpers/client"
	"github.com/docker/docker-credential-helpers/credentials"

	"gantry/executor/container/fetch"
	"gantry/executor/container/stage"
)

// Logins are the logins in a Docker configuration, from "docker login".
type Logins struct {
	file *configfile.ConfigFile
	path string
	// home and owner are those of the user whose configuration it is, as helpers need them.
	home  string
	owner stage.Owner
}

// ReadLogins reads the Docker configuration of the calling user: $DOCKER_CONFIG/config.json, else
// ~/.docker/config.json. Under sudo the caller is the user that called sudo. A missing file has no logins.
func ReadLogins() (*Logins, error) {
	l := &Logins{owner: stage.Caller()}
	if l.owner.UID != os.Geteuid() {
		if u, err := user.LookupId(strconv.Itoa(l.owner.UID)); err == nil {
			l.home = u.HomeDir
		}
	} else {
		l.home, _ = os.UserHomeDir()
	}
	dir := cmp.Or(os.Getenv("DOCKER_CONFIG"), filepath.Join(l.home, ".docker"))
	l.path = filepath.Join(dir, config.ConfigFileName)
	l.file = configfile.New(l.path)
	f, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return l, nil
	} else if err != nil {
		return nil, fmt.Errorf("logins of registries: %w (make it readable, or set DOCKER_CONFIG to another directory)",
			err)
	}
	defer f.Close()
	if err := l.file.LoadFromReader(f); err != nil {
		return nil, fmt.Errorf("logins of registries: %s: %w (correct it, or move it away and log in again)", l.path,
			err)
	}
	return l, nil
}

// server is the name under which Docker's configuration keeps the login for a registry.
func server(domain string) string {
	if domain == "docker.io" {
		return "https://index.docker.io/v1/"
	}
	return domain
}

// For returns the login for a registry, such as docker.io or localhost:5000; empty if there is none. As with the docker
// command, DOCKER_AUTH_CONFIG comes before the credential helper, and that before the file.
func (l *Logins) For(domain string) (fetch.Login, error) {
	login := func(a types.AuthConfig) fetch.Login {
		return fetch.Login{User: a.Username, Password: a.Password, Identity: a.IdentityToken, Token: a.RegistryToken}
	}
	domain = server(domain)
	if a, err := new(configfile.ConfigFile).GetAuthConfig(domain); err == nil && a != (types.AuthConfig{}) {
		return login(a), nil
	}
	helper := cmp.Or(l.file.CredentialHelpers[domain], l.file.CredentialsStore)
	a, _ := dockercredentials.NewFileStore(l.file).Get(domain)
	if helper == "" {
		return login(a), nil
	}
	c, err := client.Get(l.helper("docker-credential-"+helper), domain)
	switch {
	case credentials.IsErrCredentialsNotFound(err):
		return login(a), nil
	case err != nil:
		return login(a), fmt.Errorf("docker-credential-%s, which %s names for it, gives no login: %w", helper, l.path,
			err)
	case c.Username == "<token>":
		return fetch.Login{Identity: c.Secret}, nil
	}
	return fetch.Login{User: c.Username, Password: c.Secret}, nil
}

// helper runs a credential helper as the user whose login it has.
func (l *Logins) helper(name string) client.ProgramFunc {
	return func(args ...string) client.Program {
		cmd := exec.Command(name, args...)
		if l.owner.UID != os.Geteuid() {
			cmd.Env = append(os.Environ(), "HOME="+l.home)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(l.owner.UID),
				Gid: uint32(l.owner.GID)}}
		}
		return program{cmd}
	}
}

type program struct{ *exec.Cmd }

func (p program) Input(in io.Reader) { p.Stdin = in }
