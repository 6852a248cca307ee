package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry/executor"
	"gantry/executor/container/stage"
	"gantry/sqlite"
	"gantry/sqlite/export"
)

// telemetry sends the spans of a run on containers to the endpoint that the standard variables of OpenTelemetry name,
// by OTLP over HTTP in its JSON encoding. Without one it does nothing. A failure is a warning, without the secrets that
// an address may hold, and a signal gives it up.
func telemetry(db *sqlite.DB, run string, stop <-chan executor.Control) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
	if endpoint == "" || off {
		return
	}
	if err := sendSpans(endpoint, db, run, stop); err != nil {
		fmt.Fprintf(os.Stderr, "warning: OpenTelemetry: %v; gantry export --format otlp %s has the spans\n", err, run)
	}
}

func sendSpans(endpoint string, db *sqlite.DB, run string, stop <-chan executor.Control) error {
	if otel("PROTOCOL") == "grpc" {
		return errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and gantry speaks http/json")
	}
	wait := 10 * time.Second
	if ms, err := strconv.Atoi(otel("TIMEOUT")); err == nil && ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	go func() {
		select {
		case <-stop: // nothing else of the run is left to stop
			cancel()
		case <-ctx.Done():
		}
	}()
	r, w := io.Pipe()
	go func() { w.CloseWithError(export.OTLP(ctx, w, db, run)) }()
	defer r.Close()
	for lines := json.NewDecoder(r); ; {
		var request json.RawMessage
		if err := lines.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := deliver(ctx, endpoint, request); err != nil {
			return err
		}
	}
}

// busyError is an answer upon which OTLP has a request repeated.
type busyError struct {
	error
	after time.Duration // not before that
}

// deliver posts a request, and again as long as the endpoint is busy and there is time.
func deliver(ctx context.Context, endpoint string, body []byte) error {
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		err := post(ctx, endpoint, body)
		busy := new(busyError)
		if !errors.As(err, &busy) {
			return err
		}
		wait := max(pause, busy.after)
		if end, _ := ctx.Deadline(); time.Until(end) < wait || stage.Sleep(ctx, wait) != nil {
			return err
		}
	}
}

// otel is a variable of the exporter, that of traces first.
func otel(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

func post(ctx context.Context, endpoint string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil { // it has the address, which may have a password
		return errors.New("the address is none: set OTEL_EXPORTER_OTLP_ENDPOINT to http://HOST:PORT or https://HOST")
	}
	for _, pair := range strings.Split(otel("HEADERS"), ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			if plain, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
				value = plain
			}
			req.Header.Set(strings.TrimSpace(key), value)
		}
	}
	req.Header.Set("Content-Type", "application/json")
	// Headers may be secrets, which no other host gets.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if wrong := new(url.Error); errors.As(err, &wrong) {
		err = fmt.Errorf("%s: %w", req.URL.Host, wrong.Err)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	var partial struct {
		PartialSuccess struct {
			RejectedSpans json.Number
			ErrorMessage  string
		}
	}
	err = json.Unmarshal(text, &partial)
	switch {
	case answer.StatusCode/100 != 2:
		err := fmt.Errorf("%s answers %s: %.200q", req.URL.Host, answer.Status, text)
		if slices.Contains([]int{429, 502, 503, 504}, answer.StatusCode) {
			seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // a date is 0
			return &busyError{err, time.Duration(seconds) * time.Second}
		}
		return err
	case err == nil && strings.Trim(partial.PartialSuccess.RejectedSpans.String(), "0") != "":
		return fmt.Errorf("%s has rejected %s spans: %q", req.URL.Host, partial.PartialSuccess.RejectedSpans,
			partial.PartialSuccess.ErrorMessage)
	}
	return nil
}

// atEnd runs the command of --on-end. Its output goes to standard error, as standard output has the summary only.
func (s *Session) atEnd(state sqlite.State, code int) {
	if s.DB != nil && !Capabilities(s.Set.Runtime).Virtual {
		telemetry(s.DB, s.Name, s.controls)
	}
	if s.Set.OnEnd == "" || s.DB == nil {
		return
	}
	tasks, failed := counted(s.Engine.Planner.View())
	c := exec.Command("/bin/sh", "-c", s.Set.OnEnd)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	c.Env = append(os.Environ(), "GANTRY_RUN="+s.Name, "GANTRY_STATE="+string(state),
		"GANTRY_EXIT_CODE="+strconv.Itoa(code), "GANTRY_TASKS="+strconv.Itoa(tasks),
		"GANTRY_FAILED="+strconv.Itoa(failed), "GANTRY_DIR="+s.Home, "GANTRY_RUN_DIR="+s.Dir, "GANTRY_LOG="+s.DB.Path(),
		"GANTRY_RESULTS="+filepath.Join(s.Dir, "results"))
	if err := c.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "gantry: --on-end %s: %v\n", s.Set.OnEnd, err)
	}
}
