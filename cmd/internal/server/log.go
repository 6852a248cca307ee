package server

import (
	"net/http"
	"os"
	"path/filepath"

	"gantry/sqlite"
)

// sendLog sends the log of one submission, as a file of SQLite, for users that may not read the whole log.
func (s *Server) sendLog(w http.ResponseWriter, r *http.Request) {
	by, known := r.Context().Value(peerKey{}).(Peer)
	if !known || s.Allow != nil && !s.Allow(by) {
		refuse(w, errNotYours)
		return
	}
	id, err := number(r)
	if err == nil {
		_, err = s.statusFor(r.Context(), id, by)
	}
	var one *sqlite.DB
	if err == nil {
		one, err = s.DB.Extract(r.Context(), id)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	defer one.Close()
	dir, err := os.MkdirTemp("", "gantry-submission-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = one.Save(filepath.Join(dir, sqlite.FileName))
	}
	if err != nil {
		refuse(w, err)
		return
	}
	http.ServeFile(w, r, filepath.Join(dir, sqlite.FileName))
}
