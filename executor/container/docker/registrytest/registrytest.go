// Package registrytest runs a registry of images for tests: Debian's docker-registry, on the loopback.
package registrytest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The login that a registry wants.
const (
	User     = "ann"
	Password = "pass word"
	htpasswd = "ann:$2y$05$abcdefghijklmnopqrstuuIt/9/tGzLcigNq/.RWIDjeEVR30RSf.\n"
)

// Serve runs a registry on the loopback until the test ends, and returns its name and the directory of its storage. It
// skips without docker-registry.
func Serve(t testing.TB, login bool) (domain, storage string) {
	t.Helper()
	registry, err := find()
	if err != nil {
		t.Skipf("needs docker-registry (make registry): %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	domain = l.Addr().String()
	l.Close()
	dir := t.TempDir()
	storage = filepath.Join(dir, "storage")
	config := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"+
		"storage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", storage, domain)
	if login {
		config += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", filepath.Join(dir, "htpasswd"))
	}
	for name, text := range map[string]string{"config.yml": config, "htpasswd": htpasswd} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var says bytes.Buffer
	cmd := exec.Command(registry, "serve", filepath.Join(dir, "config.yml"))
	cmd.Stdout, cmd.Stderr = &says, &says
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get("http://" + domain + "/v2/"); err == nil {
			answer.Body.Close()
			return domain, storage
		} else if time.Now().After(end) {
			t.Fatalf("the registry does not answer: %v\n%s", err, says.String())
		}
	}
}

// find returns the path of bin/docker-registry, in a directory above the test's.
func find() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "bin", "docker-registry")
		if _, err = os.Stat(path); err == nil || dir == filepath.Dir(dir) {
			return path, err
		}
		err = nil
	}
	return "", err
}
