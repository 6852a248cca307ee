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
	"strconv"
	"strings"
	"time"

	"gantry/sqlite/export"
)

// telemetry sends the spans of a run on containers to the endpoint that the standard variables of OpenTelemetry name,
// by OTLP over HTTP in its JSON encoding. Without one it does nothing. A failure is a warning.
func (s *Session) telemetry() {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
	if endpoint == "" || off || s.DB == nil || Capabilities(s.Set.Runtime).Virtual {
		return
	}
	if err := s.sendSpans(endpoint); err != nil {
		s.View.Warn("OpenTelemetry: %v; gantry export --format otlp %s has the spans", err, s.Name)
	}
}

func (s *Session) sendSpans(endpoint string) error {
	if otel("PROTOCOL") == "grpc" {
		return errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, and gantry speaks http/json")
	}
	wait := 10 * time.Second
	if ms, err := strconv.Atoi(otel("TIMEOUT")); err == nil && ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	r, w := io.Pipe()
	go func() { w.CloseWithError(export.OTLP(ctx, w, s.DB, s.Name)) }()
	defer r.Close()
	for lines := json.NewDecoder(r); ; {
		var request json.RawMessage
		if err := lines.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := post(ctx, endpoint, request); err != nil {
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
	if err != nil {
		return err
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
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
		return fmt.Errorf("%s answers %s: %q", endpoint, answer.Status, text)
	}
	return nil
}
