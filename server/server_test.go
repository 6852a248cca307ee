package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gantry/server/api"
)

// Who asks for what panics gets an answer at once, and the operator gets what was asked and where it failed. The server
// continues.
func TestAHandlerThatPanics(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir, OwnerOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	told := make(chan string, 1)
	s := New(Config{Fault: func(message string) { told <- message },
		Allow: func(Peer) bool { panic("no such shelf") }})
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for range 2 {
		_, err := api.NewClient(dir).Status(t.Context(), 7)
		refused := new(api.Error)
		if !errors.As(err, &refused) || refused.Code != api.Failed ||
			!strings.HasPrefix(refused.Message, "GET /v1/submissions/7 failed by a fault of gantry's own") {
			t.Fatalf("the client is told %v", err)
		}
		text := <-told
		for _, want := range []string{"GET /v1/submissions/7 of user ", "no such shelf", "TestAHandlerThatPanics"} {
			if !strings.Contains(text, want) {
				t.Errorf("the operator is not told %q:\n%s", want, text)
			}
		}
	}
}

// What cannot be written as JSON is a fault like any other, and never an answer that went well.
func TestAnAnswerThatCannotBeWritten(t *testing.T) {
	s, w, r := New(Config{}), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/server", nil)
	func() {
		defer s.admit(w, r)
		answer(w, http.StatusOK, json.RawMessage("{"))
	}()
	if w.Code == http.StatusOK || !strings.Contains(w.Body.String(), `"code":"failed"`) {
		t.Errorf("it answers %d %s", w.Code, w.Body)
	}
}
