package session_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"gantry/cmd/internal/session"
)

type sentSpan struct {
	TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
	Status                                                                  struct{ Code int }
}

// A run sends its spans to the endpoint of the standard variables: itself, its tasks, their attempts.
func TestRunsSendSpans(t *testing.T) {
	var spans []sentSpan
	var service, key string
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct{ Value struct{ StringValue string } }
				}
				ScopeSpans []struct{ Spans []sentSpan }
			}
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/v1/traces", http.StatusTemporaryRedirect)
			return
		case "/busy", "/away":
			if asked++; asked == 1 || r.URL.Path == "/away" {
				w.Header().Set("Retry-After", map[string]string{"/busy": "1", "/away": "3600"}[r.URL.Path])
				http.Error(w, "later", http.StatusServiceUnavailable)
			}
			return
		case "/partly":
			w.Write([]byte(`{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "bad"}}`))
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		spans = append(spans, body.ResourceSpans[0].ScopeSpans[0].Spans...)
		attributes := body.ResourceSpans[0].Resource.Attributes
		service, key = attributes[len(attributes)-1].Value.StringValue, r.Header.Get("X-Key")
	}))
	defer server.Close()
	l := newLab(t, "null", "{name: n, cores: 4}", nil)
	l.dir = "../../../examples/montage"
	run := func() (errs string) {
		t.Helper()
		said, err := os.CreateTemp(t.TempDir(), "")
		l.must(err)
		was := os.Stderr
		os.Stderr = said
		_, err = l.begin("", "montage-25.dax", func(s *session.Settings) { s.TimeScale = 0.001 })
		os.Stderr = was
		text, failed := os.ReadFile(said.Name())
		l.must(errors.Join(err, failed, said.Close()))
		return string(text)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
	t.Setenv("OTEL_SERVICE_NAME", "pipelines")
	t.Setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if errs := run(); strings.Contains(errs, "OpenTelemetry") {
		t.Error(errs)
	}
	byID, children := map[string]sentSpan{}, map[string]int{}
	for _, s := range spans {
		byID[s.SpanID] = s
		children[s.ParentSpanID]++
		if s.TraceID != "0af7651916cd43dd8448eb211c80319c" || len(s.SpanID) != 16 || s.Status.Code != 1 ||
			s.EndTimeUnixNano < s.StartTimeUnixNano || len(s.StartTimeUnixNano) != 19 {
			t.Errorf("%+v", s)
		}
	}
	root := spans[0]
	if len(byID) != 51 || root.ParentSpanID != "b7ad6b7169203331" || children[root.SpanID] != 25 ||
		service != "pipelines" || key != "a b" {
		t.Errorf("%d spans of %s, %d tasks below %q, key %q", len(byID), service, children[root.SpanID], root.Name, key)
	}
	spans = nil
	t.Setenv("TRACEPARENT", "00-00000000000000000000000000000000-b7ad6b7169203331-01") // is none
	if errs := run(); strings.Contains(errs, "OpenTelemetry") || strings.Trim(spans[0].TraceID, "0") == "" ||
		spans[0].ParentSpanID != "" {
		t.Errorf("%s%+v", errs, spans[0])
	}
	// The run warns of an endpoint that fails, and continues. It sends no headers to another host, and names lost
	// spans. It asks a busy endpoint again, as long as there is time.
	host := strings.TrimPrefix(server.URL, "http://")
	for _, x := range []struct {
		endpoint, says string // "": nothing
		asked          int
	}{
		{"me:s3cret@" + host + "/other?key=s3cret", "OpenTelemetry: " + host + " answers 400 Bad Request", 0},
		{host + "/moved", " answers 307 Temporary Redirect", 0},
		{host + "/partly", ` has rejected 3 spans: "bad"`, 0},
		{host + "/busy", "", 2},
		{host + "/away", " answers 503 Service Unavailable", 3},
		{"me:s3cret@127.0.0.1:none/s3cret", "the address is none", 3},
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+x.endpoint)
		errs := run()
		if !strings.Contains(errs, x.says) || strings.Contains(errs, "OpenTelemetry") != (x.says != "") ||
			strings.Contains(errs, "s3cret") || strings.Contains(errs, "other") || asked != x.asked {
			t.Errorf("%s, asked %d times: %s", x.endpoint, asked, errs)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if errs := run(); !strings.Contains(errs, "gantry speaks http/json") {
		t.Error(errs)
	}
	sent := len(spans)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if errs := run(); strings.Contains(errs, "OpenTelemetry") || len(spans) != sent {
		t.Error(errs)
	}
}
