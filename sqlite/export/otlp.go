package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"gantry/sqlite"
)

// OTLP writes a run as traces of OpenTelemetry (OTLP 1, JSON encoding): lines that are an ExportTraceServiceRequest of
// at most 1,000 spans each. The run is the parent of its tasks, a task that of its attempts. Identifiers are functions
// of the run, so that a span that is sent twice is the same. The standard variables OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES and TRACEPARENT count. A task without an attempt has no span.
func OTLP(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	o := &otlp{out: json.NewEncoder(w), run: info.Name, began: info.Started.UnixNano(),
		trace: otlpID("trace", info.Name, info.Started.String())[:32]}
	root := o.id("run")
	var parent string
	// version-trace-parent-flags (W3C Trace Context, section 3.2); a number 0 is none
	if x := traceParent.FindStringSubmatch(os.Getenv("TRACEPARENT")); x != nil && strings.Trim(x[1], "0") != "" &&
		strings.Trim(x[2], "0") != "" {
		o.trace, parent = x[1], x[2]
	}
	r, err := sqlite.RowOf[struct {
		Ended  int64
		State  string
		Failed bool
	}](ctx, db, `SELECT coalesce(r.ended_ns, k.at_ns, 0), r.state, coalesce(r.exit_code, 0) <> 0 FROM runs r
		LEFT JOIN clocks k ON k.run = r.id WHERE r.name = ?`, info.Name)
	if err != nil {
		return err
	}
	o.span(root, parent, "gantry "+info.Name, 0, r.Ended, r.Failed, r.State,
		otlpText("gantry.run", info.Name), otlpText("gantry.policy", info.Policy),
		otlpText("gantry.runtime", info.Runtime))
	err = sqlite.EachRow(ctx, db, func(t *struct {
		Flow, Task, Kind, State string
		From, To                int64
	}) error {
		o.span(o.id("task", t.Flow, t.Task), root, t.Task, t.From, t.To, t.State == "failed", t.State,
			otlpText("gantry.workflow", t.Flow), otlpText("gantry.task", t.Task), otlpText("gantry.type", t.Kind))
		return nil
	}, `SELECT v.workflow, v.task, v.kind, t.state, min(v.queued_ns),
		max(coalesce(v.ended_ns, v.started_ns, v.queued_ns))
		FROM v_attempts v JOIN runs r ON r.name = v.run JOIN workflows w ON w.run = r.id AND w.name = v.workflow
		JOIN tasks t ON t.run = r.id AND t.workflow = w.workflow AND t.name = v.task AND t.state <> 'continued'
		WHERE v.run = ?
		GROUP BY t.task ORDER BY t.task`, info.Name)
	if err != nil {
		return err
	}
	err = sqlite.EachRow(ctx, db, o.attempt, `SELECT workflow, task, coalesce(node, ''), coalesce(outcome, ''),
		coalesce(message, ''), try, queued_ns, coalesce(ended_ns, started_ns, queued_ns), started_ns, exit_code,
		cpu_user_ns + cpu_system_ns, peak_memory_bytes, gpu_ns, peak_gpu_memory_bytes FROM v_attempts
		WHERE run = ? ORDER BY attempt`, info.Name)
	if err != nil {
		return err
	}
	return o.flush()
}

var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

type otlp struct {
	out   *json.Encoder
	run   string
	began int64 // UTC, nanoseconds since 1970
	trace string
	spans []entity
	err   error
}

func otlpText(key, value string) entity {
	return entity{"key": key, "value": entity{"stringValue": value}}
}

func otlpNumber(key string, value int64) entity {
	return entity{"key": key, "value": entity{"intValue": strconv.FormatInt(value, 10)}}
}

func otlpID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (o *otlp) id(parts ...string) string {
	return otlpID(append([]string{o.run, strconv.FormatInt(o.began, 10)}, parts...)...)[:16]
}

func (o *otlp) at(ns int64) string { return strconv.FormatInt(o.began+ns, 10) }

func (o *otlp) span(id, parent, name string, from, to int64, failed bool, message string, pairs ...entity) {
	if len(o.spans) == 1000 {
		o.err = o.flush()
	}
	const internal, ok, wrong = 1, 1, 2 // kind of a span, and codes of its status
	s := entity{"traceId": o.trace, "spanId": id, "name": name, "kind": internal, "startTimeUnixNano": o.at(from),
		"endTimeUnixNano": o.at(to), "attributes": append(pairs, otlpText("gantry.state", message)),
		"status": entity{"code": ok}}
	if parent != "" {
		s["parentSpanId"] = parent
	}
	if failed {
		s["status"] = entity{"code": wrong, "message": message}
	}
	o.spans = append(o.spans, s)
}

type otlpAttempt struct {
	Flow, Task, Node, Outcome, Message string
	Try, From, To                      int64
	Started, Code, CPU, Memory         *int64
	GPU, GPUMemory                     *int64
}

func (o *otlp) attempt(a *otlpAttempt) error {
	pairs := []entity{otlpText("gantry.node", a.Node), otlpNumber("gantry.try", a.Try),
		otlpText("gantry.outcome", a.Outcome)}
	for _, x := range []struct {
		key   string
		value *int64
	}{{"process.exit.code", a.Code}, {"gantry.cpu_ns", a.CPU}, {"gantry.peak_memory_bytes", a.Memory},
		{"gantry.gpu_ns", a.GPU}, {"gantry.peak_gpu_memory_bytes", a.GPUMemory}} {
		if x.value != nil {
			pairs = append(pairs, otlpNumber(x.key, *x.value))
		}
	}
	try := strconv.FormatInt(a.Try, 10)
	o.span(o.id("attempt", a.Flow, a.Task, try), o.id("task", a.Flow, a.Task), a.Task+", attempt "+try, a.From, a.To,
		a.Outcome != "ok" && a.Outcome != "", cmp.Or(a.Message, a.Outcome), pairs...)
	if a.Started != nil {
		o.spans[len(o.spans)-1]["events"] = []entity{{"timeUnixNano": o.at(*a.Started), "name": "program runs"}}
	}
	return o.err
}

// flush writes a request with the spans so far.
func (o *otlp) flush() error {
	if len(o.spans) == 0 || o.err != nil {
		return o.err
	}
	service := os.Getenv("OTEL_SERVICE_NAME")
	var resource []entity
	for _, pair := range strings.Split(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		key, value, ok := strings.Cut(pair, "=")
		if plain, err := url.PathUnescape(strings.TrimSpace(value)); err == nil {
			value = plain
		}
		if key = strings.TrimSpace(key); ok && key != "service.name" {
			resource = append(resource, otlpText(key, value))
		} else if ok && service == "" {
			service = value
		}
	}
	err := o.out.Encode(entity{"resourceSpans": []entity{{
		"resource":   entity{"attributes": append(resource, otlpText("service.name", cmp.Or(service, "gantry")))},
		"scopeSpans": []entity{{"scope": entity{"name": "gantry"}, "spans": o.spans}}}}})
	o.spans = o.spans[:0]
	return err
}
