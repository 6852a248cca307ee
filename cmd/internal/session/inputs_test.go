package session_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gantry/cmd/internal/session"
	"gantry/cmd/internal/term"
	"gantry/executor"
	"gantry/planner"
	"gantry/trace"
)

// An address that two users name is fetched for each: neither changes the file of the other.
func TestUsersHaveFetchedFilesOfTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("text"))
	}))
	defer server.Close()
	dir, paths := t.TempDir(), map[string]bool{}
	for _, above := range []string{dir, filepath.Dir(dir)} {
		must(t, os.Chmod(above, 0o711))
	}
	p := &session.Planning{Set: &session.Settings{SizeScale: 1, TimeScale: 1}, Platform: &planner.Platform{},
		View: term.New(true)}
	for _, by := range []*executor.User{nil, {UID: 12345}, {UID: 23456}, {UID: 12345}} {
		sub := executor.Submission{Name: "w", By: by, Sources: []executor.Source{{URL: server.URL}},
			Workflow: &trace.Workflow{Files: []trace.File{{Name: "in", Producer: -1,
				Origin: &trace.Origin{Locations: []string{server.URL}}}},
				Tasks: []trace.Task{{ID: "t", Image: "i", Command: []string{"x"}, Inputs: []int32{0}}}}}
		subs := []executor.Submission{sub}
		must(t, p.FetchSources(t.Context(), dir, subs))
		paths[filepath.Dir(subs[0].Sources[0].Path)] = true
	}
	if len(paths) != 3 {
		t.Errorf("three users share the directories %v", paths)
	}
}
