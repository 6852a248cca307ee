package export

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gantry/sqlite"
)

// family is a metric of a run: a query of label values and then the value, for each of its labels.
type family struct {
	name, kind, help string
	labels           []string
	query            string // ?1 is the run's number
}

// families are the metrics. Names have base units, as Prometheus wants them; counters end with _total.
var families = []family{
	{"gantry_run_info", "gauge", "The run: always 1.", []string{"policy", "runtime", "version", "state"},
		"SELECT policy, runtime, version, state, 1 FROM runs WHERE id = ?1"},
	{"gantry_run_start_time_seconds", "gauge", "When the run began, in seconds since 1970.", nil,
		"SELECT started_unix_ns / 1e9 FROM runs WHERE id = ?1"},
	{"gantry_run_clock_seconds", "gauge", "How far the run got: the time of its last event since it began.", nil,
		"SELECT at_ns / 1e9 FROM clocks WHERE run = ?1 AND at_ns IS NOT NULL"},
	{"gantry_workflows", "gauge", "Workflows that arrived, by state.", []string{"state"},
		"SELECT state, count(*) FROM workflows WHERE run = ?1 GROUP BY state ORDER BY state"},
	{"gantry_tasks", "gauge", "Tasks of the workflows that arrived, by state.", []string{"state"},
		"SELECT state, count(*) FROM tasks WHERE run = ?1 GROUP BY state ORDER BY state"},
	{"gantry_attempts_total", "counter", "Attempts that ended, by outcome.", []string{"outcome"},
		`SELECT outcome, count(*) FROM attempts
		WHERE run = ?1 AND outcome IS NOT NULL GROUP BY outcome ORDER BY outcome`},
	{"gantry_attempt_run_seconds_total", "counter", "Time that the programs of ended attempts ran, by outcome.",
		[]string{"outcome"}, `SELECT outcome, total(ran_ns) / 1e9 FROM attempts
		WHERE run = ?1 AND outcome IS NOT NULL GROUP BY outcome ORDER BY outcome`},
	{"gantry_attempt_cpu_seconds_total", "counter", "CPU time of ended attempts, as far as it was measured.", nil,
		"SELECT total(cpu_user_ns + cpu_system_ns) / 1e9 FROM attempts WHERE run = ?1"},
	{"gantry_attempt_read_bytes_total", "counter", "Bytes that ended attempts read, as far as they were measured.", nil,
		"SELECT total(read_bytes) FROM attempts WHERE run = ?1"},
	{"gantry_attempt_written_bytes_total", "counter", "Bytes that ended attempts wrote, as far as they were measured.",
		nil, "SELECT total(written_bytes) FROM attempts WHERE run = ?1"},
	{"gantry_waiting_tasks", "gauge", "Tasks that wait, by the reason that the policy gave last.",
		[]string{"reason", "lacks"}, `SELECT x.reason, coalesce(x.dim, ''), count(*)
		FROM (SELECT task, reason, dim, max(seq) FROM waits WHERE run = ?1 GROUP BY task) x
		JOIN tasks t ON t.run = ?1 AND t.task = x.task
		WHERE t.state = 'waiting' GROUP BY 1, 2 ORDER BY 1, 2`},
	{"gantry_node_cores", "gauge", "Cores of a node.", []string{"node"},
		`SELECT name, capacity_millicores / 1e3 FROM nodes
		WHERE run = ?1 AND capacity_millicores IS NOT NULL ORDER BY node`},
	{"gantry_node_held_cores", "gauge", "Cores that tasks hold of a node; frozen ones hold none.", []string{"node"},
		`SELECT n.name, total(iif(t.state = 'suspended', 0, a.hold_millicores)) / 1e3 FROM nodes n
		LEFT JOIN tasks t ON t.run = n.run AND t.node = n.node AND t.state IN ('starting', 'running', 'suspended')
		LEFT JOIN attempts a ON a.run = t.run AND a.attempt = t.attempt
		WHERE n.run = ?1 GROUP BY n.node ORDER BY n.node`},
	{"gantry_node_memory_bytes", "gauge", "Memory of a node.", []string{"node"},
		`SELECT name, capacity_memory_bytes FROM nodes
		WHERE run = ?1 AND capacity_memory_bytes IS NOT NULL ORDER BY node`},
	{"gantry_node_held_memory_bytes", "gauge", "Memory that tasks hold of a node.", []string{"node"},
		`SELECT n.name, total(a.hold_memory_bytes) FROM nodes n
		LEFT JOIN tasks t ON t.run = n.run AND t.node = n.node AND t.state IN ('starting', 'running', 'suspended')
		LEFT JOIN attempts a ON a.run = t.run AND a.attempt = t.attempt
		WHERE n.run = ?1 GROUP BY n.node ORDER BY n.node`},
	{"gantry_node_attempts", "gauge", "Attempts that are under way on a node.", []string{"node"},
		`SELECT n.name, count(t.task) FROM nodes n
		LEFT JOIN tasks t ON t.run = n.run AND t.node = n.node AND t.state IN ('starting', 'running', 'suspended')
		WHERE n.run = ?1 GROUP BY n.node ORDER BY n.node`},
	{"gantry_planning_rounds_total", "counter", "Rounds of planning that had an outcome; none of simulations.",
		nil, "SELECT count(*) FROM events WHERE run = ?1 AND kind = 9"},
	{"gantry_planning_seconds_total", "counter", "Time that these rounds took.", nil,
		"SELECT total(body ->> 'took_ns') / 1e9 FROM events WHERE run = ?1 AND kind = 9"},
}

// MetricsType is the content type of the text that Prometheus writes.
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

// Prometheus writes how a run stands in the text format of Prometheus. Every metric has the label run.
func Prometheus(ctx context.Context, w io.Writer, db *sqlite.DB, run string) error {
	info, err := db.Info(ctx, run)
	if err != nil {
		return err
	}
	id, err := sqlite.RowOf[int64](ctx, db, "SELECT id FROM runs WHERE name = ?", info.Name)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, f := range families {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		values := make([]string, len(f.labels))
		var value float64
		columns := make([]any, len(f.labels), len(f.labels)+1)
		for i := range values {
			columns[i] = &values[i]
		}
		columns = append(columns, &value)
		err := db.Each(ctx, func(scan sqlite.Scan) error {
			if err := scan(columns...); err != nil {
				return err
			}
			fmt.Fprintf(out, "%s{run=\"%s\"", f.name, labelValue(info.Name))
			for i, l := range f.labels {
				fmt.Fprintf(out, ",%s=\"%s\"", l, labelValue(values[i]))
			}
			_, err := fmt.Fprintf(out, "} %s\n", strconv.FormatFloat(value, 'g', 16, 64))
			return err
		}, f.query, id)
		if err != nil {
			return fmt.Errorf("metric %s: %w", f.name, err)
		}
	}
	return out.Flush()
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelValue escapes a value of a label: any valid UTF-8 is allowed.
func labelValue(s string) string { return labelEscapes.Replace(strings.ToValidUTF8(s, "\ufffd")) }

// metricsShare is the share of a core that answering Prometheus may take.
const metricsShare = 0.005

// MetricsHandler serves the metrics of a run. It reads the log so rarely that this takes the share of a core, and at
// most once a second; in between it answers the same.
func MetricsHandler(db *sqlite.DB, run string) http.Handler {
	var mu sync.Mutex
	var text []byte
	var again time.Time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if began := time.Now(); began.After(again) {
			var b bytes.Buffer
			// The driver hands each row over between two goroutines if it may have to stop in between.
			if err := Prometheus(context.WithoutCancel(r.Context()), &b, db, run); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			text = b.Bytes()
			took := time.Since(began)
			again = time.Now().Add(max(time.Second, time.Duration(float64(took)/metricsShare)))
		}
		w.Header().Set("Content-Type", MetricsType)
		_, _ = w.Write(text) // the client may have gone
	})
}
