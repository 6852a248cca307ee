package session

import (
	"context"
	"time"

	"gantry/sqlite/report/live"
)

// openPage opens the server of the page of the run, if somebody is to watch.
func (s *Session) openPage() (err error) {
	if s.opts.Page != nil {
		s.page, err = s.opts.Page(s.DB, s.Name)
	}
	return err
}

// serveLive serves the page of the run that this process works on, until the returned function is called, which lets
// clients have the last data. Without --watch it does nothing.
func (s *Session) serveLive(ctx context.Context) (end func()) {
	if s.page == nil {
		return func() {}
	}
	s.View.Say("watch this run at %s", s.page.URL())
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.page.Serve(ctx); err != nil {
			s.View.Warn("the page of the run is not served any more: %v", err)
		}
	}()
	return func() {
		defer cancel()
		s.page.Hurry()
		select {
		case <-done:
		case <-time.After(2 * live.Farewell):
		}
	}
}
