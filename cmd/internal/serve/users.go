package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gantry/cmd/internal/exit"
	"gantry/cmd/internal/server"
	"gantry/cmd/internal/session"
	"gantry/executor"
	"gantry/executor/container"
	"gantry/executor/container/fetch"
	"gantry/sqlite"
)

// share prepares the gantry directory for a server of a group. Its members can pass the directory, and read only their
// own files there.
func (v *Server) share(s *session.Session, name string, tenants []string) (err error) {
	if v.tenants, err = tenantsOf(tenants); err != nil {
		return exit.With(exit.Usage, err)
	}
	if os.Geteuid() != 0 {
		return exit.Hostf("--group %s: only root can run work of several users: start it as root, or leave "+
			"--group out to serve yourself", name)
	}
	if v.group, err = groupOf(name); err != nil {
		return exit.With(exit.Usage, err)
	}
	for flag, set := range map[string]bool{"reuse": s.Set.Reuse, "secret": len(s.Set.Secrets) > 0} {
		if set {
			return exit.Usagef("--%s: with --group all users would share what it gives; leave it out", flag)
		}
	}
	// Under sudo, too, the server is root's, not the caller's.
	os.Unsetenv("SUDO_UID")
	os.Unsetenv("SUDO_GID")
	if err := shareDir(s.Home, v.group); err != nil {
		return exit.Hostf("--group %s: %w", name, err)
	}
	return nil
}

// groupOf is the number of a group that is named by its name or number.
func groupOf(name string) (int, error) {
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	id, err := strconv.Atoi(name)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("--group %s: this host has no such group (getent group lists them)", name)
	}
	return id, nil
}

// shareDir makes a gantry directory one that members of a group can pass.
func shareDir(home string, group int) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := trusted(home); err != nil {
		return err
	}
	log := filepath.Join(home, sqlite.FileName)
	if f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600); err != nil {
		return err
	} else if err := f.Close(); err != nil {
		return err
	}
	// Existing files are of earlier servers, which were one user's or this group's.
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && e.Type()&(fs.ModeSymlink|fs.ModeSocket) != 0 {
			continue
		} else if err != nil {
			return err
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); !ok || sys.Uid != 0 {
			return fmt.Errorf("%s is not root's: a server of one user was started here; use another --dir", e.Name())
		}
		path := filepath.Join(home, e.Name())
		switch mode := info.Mode().Perm(); {
		case !e.IsDir():
			err = os.Chmod(path, mode&0o700)
		case mode&0o044 != 0: // that of a server of a group can be passed, and nobody can list it
			err = os.Chmod(path, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(os.Lchown(home, 0, group), os.Chmod(home, 0o750))
}

// trusted says why somebody else could put another directory in the place of dir.
func trusted(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		sys, ok := info.Sys().(*syscall.Stat_t)
		sticky := at != real && info.Mode()&fs.ModeSticky != 0
		switch {
		case !ok || sys.Uid != 0:
			return fmt.Errorf("directory %s is not root's, so its owner could change what is below it: use another "+
				"--dir, such as /var/lib/gantry", at)
		case info.Mode().Perm()&0o022 != 0 && !sticky:
			return fmt.Errorf("others than root may write to directory %s: chmod go-w, or use another --dir, such as "+
				"/var/lib/gantry", at)
		case at == "/":
			return nil
		}
	}
}

// ownImages refuses images that are not the same for all users.
func ownImages(sub *executor.Submission) error {
	names := []string{}
	for i := range sub.Workflow.Tasks {
		names = append(names, sub.Workflow.Tasks[i].Image)
	}
	for _, c := range sub.Workflow.Containers {
		names = append(names, c.Image)
	}
	for _, name := range names {
		if _, archive := (&fetch.Wanted{Ref: name}).Name(); archive {
			return fmt.Errorf("workflow %s: image %s: a server of several users takes no archives, as an image is the "+
				"same for all: have it loaded into the engine, or name one of a registry", sub.Name, name)
		}
	}
	return nil
}

// tenantsOf reads USER=TENANT. A user with a name is known by that name.
func tenantsOf(all []string) (map[string]string, error) {
	of := map[string]string{}
	for _, text := range all {
		who, tenant, _ := strings.Cut(text, "=")
		if who == "" || tenant == "" {
			return nil, fmt.Errorf("--tenant %s: write USER=TENANT, or USER=* for whichever the user names", text)
		}
		if u, err := user.LookupId(who); err == nil {
			who = u.Username
		} else if _, err := user.Lookup(who); err != nil {
			if id, err := strconv.Atoi(who); err != nil || id < 0 {
				return nil, fmt.Errorf("--tenant %s: this host has no user %s (getent passwd lists them)", text, who)
			}
		}
		if was, twice := of[who]; twice && was != tenant {
			return nil, fmt.Errorf("--tenant %s: the work of %s counts for %s already", text, who, was)
		}
		of[who] = tenant
	}
	return of, nil
}

// tenant is the tenant that a user counts for; "": whichever the user names.
func (v *Server) tenant(user string) string {
	if v.group == server.OwnerOnly {
		return ""
	}
	switch of := v.tenants[user]; of {
	case "":
		return user
	case "*":
		return ""
	default:
		return of
	}
}

// secretsOf are those of submissions; nil where no programs run.
func secretsOf(s *session.Session) server.Secrets {
	if !session.Capabilities(s.Set.Runtime).Programs {
		return nil
	}
	return container.SecretsOfSubmissions(s.Name, s.Dir)
}
