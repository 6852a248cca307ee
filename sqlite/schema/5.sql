-- Version 5: simulations log events by the thousand, edges are kept with their tasks, and runs keep their metrics.

ALTER TABLE tasks ADD COLUMN parents TEXT;
UPDATE tasks SET parents = (SELECT json_group_array(e.parent) FROM edges e WHERE e.run = tasks.run AND e.child = tasks.task)
  WHERE EXISTS (SELECT 1 FROM edges e WHERE e.run = tasks.run AND e.child = tasks.task);
DROP TABLE edges;
CREATE VIEW edges AS
SELECT t.run, t.task AS child, p.value AS parent FROM tasks t, json_each(t.parents) p;

ALTER TABLE workflows ADD COLUMN first_task INTEGER;
UPDATE workflows SET first_task = (SELECT min(t.task) FROM tasks t WHERE t.run = workflows.run AND t.workflow = workflows.workflow);

CREATE TABLE event_chunks (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  at_ns   INTEGER NOT NULL,
  kinds   INTEGER NOT NULL,
  rounds  INTEGER NOT NULL,
  took_ns INTEGER NOT NULL,
  bodies  TEXT    NOT NULL,
  v       INTEGER NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT;

CREATE TABLE run_metrics (
  run      INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  name     TEXT    NOT NULL,
  value    REAL,
  PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_metrics (
  run              INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  workflow         INTEGER NOT NULL,
  counts           INTEGER NOT NULL,
  wait_ns          INTEGER,
  makespan_ns      INTEGER,
  response_ns      INTEGER,
  work_ns          INTEGER NOT NULL,
  critical_path_ns INTEGER NOT NULL,
  lowest_ns        INTEGER NOT NULL,
  PRIMARY KEY (run, workflow)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_events AS
SELECT r.name AS run, e.seq, e.at_ns / 1e9 AS at_s, e.kind, e.body FROM runs r JOIN events e ON e.run = r.id
UNION ALL
SELECT r.name, c.seq + j.key, (j.value ->> 0) / 1e9, j.value ->> 1, j.value -> 2
FROM runs r JOIN event_chunks c ON c.run = r.id, json_each(c.bodies) j;

CREATE VIEW v_plans AS
SELECT r.name AS run, p.round, p.at_ns / 1e9 AS at_s, p.orders, p.starts, p.waits, p.took_ns / 1e9 AS took_s
FROM runs r JOIN plans p ON p.run = r.id
UNION ALL
SELECT x.run, x.body ->> 'round', x.at_s, coalesce(json_array_length(x.body, '$.orders'), 0),
  (SELECT count(*) FROM json_each(x.body, '$.orders') o WHERE o.value ->> 'kind' = 1),
  coalesce(json_array_length(x.body, '$.waits'), 0), coalesce(x.body ->> 'took_ns', 0) / 1e9
FROM (
  SELECT r.name AS run, (j.value ->> 0) / 1e9 AS at_s, j.value -> 2 AS body
  FROM runs r JOIN event_chunks c ON c.run = r.id, json_each(c.bodies) j WHERE j.value ->> 1 = 9
) x;

CREATE VIEW v_metrics AS
SELECT r.name AS run, r.policy, r.runtime, m.name, m.value FROM runs r JOIN run_metrics m ON m.run = r.id;

CREATE VIEW v_slowdowns AS
SELECT r.name AS run, w.workflow AS position, w.name AS workflow, w.tasks, m.counts, w.arrived_ns / 1e9 AS arrived_s, w.due_ns / 1e9 AS due_s, m.wait_ns / 1e9 AS wait_s, m.makespan_ns / 1e9 AS makespan_s, m.response_ns / 1e9 AS response_s,
  m.work_ns / 1e9 AS work_s, m.critical_path_ns / 1e9 AS critical_path_s,
  1.0 * m.response_ns / nullif(m.critical_path_ns, 0) AS slowdown, 1.0 * m.response_ns / nullif(m.lowest_ns, 0) AS slr
FROM runs r JOIN workflow_metrics m ON m.run = r.id JOIN workflows w ON w.run = r.id AND w.workflow = m.workflow;

CREATE VIEW v_in_system AS
SELECT run, at_ns / 1e9 AS at_s, sum(step) OVER (PARTITION BY run ORDER BY at_ns, step) AS workflows FROM (
  SELECT r.name AS run, w.arrived_ns AS at_ns, 1 AS step FROM runs r JOIN workflows w ON w.run = r.id
  UNION ALL
  SELECT r.name, w.ended_ns, -1 FROM runs r JOIN workflows w ON w.run = r.id WHERE w.ended_ns IS NOT NULL
);

-- The last event of a run, and so its clock.
CREATE VIEW clocks AS
SELECT r.id AS run, coalesce(
  (SELECT e.at_ns FROM events e WHERE e.run = r.id ORDER BY e.seq DESC LIMIT 1),
  (SELECT c.at_ns FROM event_chunks c WHERE c.run = r.id ORDER BY c.seq DESC LIMIT 1)) AS at_ns
FROM runs r;

-- The tasks of a workflow are numbered one after the other: no index is needed to find them.
DROP VIEW v_workflows;
CREATE VIEW v_workflows AS
SELECT r.name AS run, w.name AS workflow, w.label, w.tenant, w.class, w.state, w.tasks,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.task BETWEEN w.first_task AND w.first_task + w.tasks - 1 AND t.state = 'done') AS succeeded,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.task BETWEEN w.first_task AND w.first_task + w.tasks - 1 AND t.state = 'failed') AS failed,
  w.arrived_ns / 1e9 AS arrived_s, w.release_ns / 1e9 AS release_s, w.due_ns / 1e9 AS due_s,
  w.started_ns / 1e9 AS started_s, w.ended_ns / 1e9 AS ended_s,
  (w.started_ns - max(w.arrived_ns, w.release_ns)) / 1e9 AS wait_s,
  (w.ended_ns - w.started_ns) / 1e9 AS makespan_s,
  (w.ended_ns - w.arrived_ns) / 1e9 AS response_s
FROM runs r JOIN workflows w ON w.run = r.id;
DROP INDEX tasks_by_workflow;

DROP VIEW v_runs;
CREATE VIEW v_runs AS
SELECT r.name AS run, r.runtime, r.policy, r.state, r.started_wall AS started, r.exit_code,
  (SELECT count(*) FROM workflows w WHERE w.run = r.id) AS workflows,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id) AS tasks,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'done') AS succeeded,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'failed') AS failed,
  k.at_ns / 1e9 AS clock_s,
  r.makespan_ns / 1e9 AS makespan_s, r.seed, r.time_scale, r.size_scale, r.resumes, r.version
FROM runs r JOIN clocks k ON k.run = r.id;

DROP VIEW v_tasks;
CREATE VIEW v_tasks AS
SELECT x.run, x.workflow, x.task, x.kind, iif(x.state = 'waiting' AND x.ready_ns <= x.clock_ns, 'ready', x.state) AS state, x.node, x.attempts, x.outcome, x.exit_code,
  x.ready_ns / 1e9 AS ready_s, x.started_ns / 1e9 AS started_s, x.ended_ns / 1e9 AS ended_s,
  max(0, CASE WHEN x.queued_ns IS NOT NULL THEN x.queued_ns WHEN x.state = 'waiting' THEN x.clock_ns END - x.ready_ns) / 1e9 AS wait_s,
  x.ran_ns / 1e9 AS runtime_s, (x.cpu_user_ns + x.cpu_system_ns) / 1e9 AS cpu_s, x.peak_memory_bytes / 1e6 AS peak_mb,
  x.read_bytes / 1e6 AS read_mb, x.written_bytes / 1e6 AS written_mb,
  x.estimate_ns / 1e9 AS estimate_s, x.trace_runtime_ns / 1e9 AS trace_runtime_s, x.imputed
FROM (
  SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, t.state, n.name AS node, t.attempts, t.queued_ns,
    t.trace_runtime_ns, t.imputed, a.outcome, a.exit_code, a.started_ns, a.ended_ns, a.ran_ns, a.cpu_user_ns, a.cpu_system_ns,
    a.peak_memory_bytes, a.read_bytes, a.written_bytes, a.estimate_ns,
    (SELECT k.at_ns FROM clocks k WHERE k.run = r.id) AS clock_ns,
    (SELECT CASE WHEN total(p.state <> 'done') = 0 THEN max(w.arrived_ns, w.release_ns, coalesce(max(p.ended_ns), 0)) END
     FROM json_each(t.parents) d CROSS JOIN tasks p ON p.run = t.run AND p.task = d.value) AS ready_ns
  FROM runs r
  JOIN tasks t ON t.run = r.id
  JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
  LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
  LEFT JOIN nodes n ON n.run = r.id AND n.node = t.node
) x;

DROP VIEW v_utilisation;
CREATE VIEW v_utilisation AS
SELECT x.run, x.node, x.cores, x.speed, x.attempts, x.span_s, x.held_core_s, x.used_core_s,
  100 * x.held_core_s / nullif(x.cores * x.span_s, 0) AS held_pct,
  100 * x.used_core_s / nullif(x.cores * x.span_s, 0) AS used_pct
FROM (
  SELECT r.name AS run, n.name AS node, n.capacity_millicores / 1e3 AS cores, n.speed, count(a.attempt) AS attempts, s.span_ns / 1e9 AS span_s,
    total(a.hold_millicores / 1e3 * (coalesce(a.ended_ns, s.clock_ns) - a.queued_ns
      - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0))) / 1e9) AS held_core_s,
    sum(a.cpu_user_ns + a.cpu_system_ns) / 1e9 AS used_core_s
  FROM runs r
  JOIN nodes n ON n.run = r.id
  JOIN (
    SELECT q.id, k.at_ns AS clock_ns, coalesce(q.makespan_ns, k.at_ns - (SELECT min(w.arrived_ns) FROM workflows w WHERE w.run = q.id)) AS span_ns
    FROM runs q JOIN clocks k ON k.run = q.id
  ) s ON s.id = r.id
  LEFT JOIN attempts a ON a.run = r.id AND a.node = n.node
  GROUP BY r.id, n.node
) x;

PRAGMA user_version = 5;
