-- Version 1 of gantry's log. FORMAT.md documents every table, column and view.

CREATE TABLE runs (
  id              INTEGER PRIMARY KEY,
  name            TEXT    NOT NULL UNIQUE,
  runtime         TEXT    NOT NULL,
  policy          TEXT    NOT NULL,
  command         TEXT    NOT NULL,
  version         TEXT    NOT NULL,
  started_wall    TEXT    NOT NULL,
  started_unix_ns INTEGER NOT NULL,
  seed            INTEGER NOT NULL,
  time_scale      REAL    NOT NULL,
  size_scale      REAL    NOT NULL,
  cluster         TEXT,
  platform        TEXT    NOT NULL,
  host            TEXT,
  settings        TEXT,
  state           TEXT    NOT NULL DEFAULT 'running',
  resumes         INTEGER NOT NULL DEFAULT 0,
  exit_code       INTEGER,
  ended_wall      TEXT,
  ended_ns        INTEGER,
  makespan_ns     INTEGER
) STRICT;

CREATE TABLE nodes (
  run                 INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  node                INTEGER NOT NULL,
  name                TEXT    NOT NULL,
  node_group          TEXT    NOT NULL,
  capacity_millicores INTEGER,
  capacity_memory_bytes INTEGER,
  capacity_disk_bps   INTEGER,
  speed               REAL    NOT NULL,
  PRIMARY KEY (run, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  run   INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq   INTEGER NOT NULL,
  at_ns INTEGER NOT NULL,
  kind  INTEGER NOT NULL,
  body  TEXT    NOT NULL,
  v     INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE submissions (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  position   INTEGER NOT NULL,
  at_ns      INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  definition BLOB    NOT NULL,
  PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  workflow   INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  label      TEXT    NOT NULL,
  source     TEXT    NOT NULL,
  format     TEXT    NOT NULL,
  tenant     TEXT    NOT NULL,
  class      TEXT    NOT NULL,
  arrived_ns INTEGER NOT NULL,
  release_ns INTEGER NOT NULL,
  due_ns     INTEGER,
  tasks      INTEGER NOT NULL,
  state      TEXT    NOT NULL DEFAULT 'waiting',
  started_ns INTEGER,
  ended_ns   INTEGER,
  definition BLOB    NOT NULL,
  PRIMARY KEY (run, workflow)
) STRICT;

CREATE TABLE tasks (
  run               INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  task              INTEGER NOT NULL,
  workflow          INTEGER NOT NULL,
  name              TEXT    NOT NULL,
  kind              TEXT    NOT NULL,
  stage             INTEGER NOT NULL,
  need_millicores   INTEGER NOT NULL,
  need_memory_bytes INTEGER NOT NULL,
  need_disk_bps     INTEGER NOT NULL,
  time_limit_ns     INTEGER,
  trace_runtime_ns  INTEGER,
  imputed           TEXT    NOT NULL,
  state             TEXT    NOT NULL DEFAULT 'waiting',
  node              INTEGER,
  attempts          INTEGER NOT NULL DEFAULT 0,
  attempt           INTEGER,
  queued_ns         INTEGER,
  ended_ns          INTEGER,
  PRIMARY KEY (run, task)
) STRICT, WITHOUT ROWID;

-- Named where it is meant: without statistics SQLite would rather scan all tasks of a run for each workflow.
CREATE INDEX tasks_by_workflow ON tasks(run, workflow);

CREATE TABLE edges (
  run    INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  child  INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  PRIMARY KEY (run, child, parent)
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  file       INTEGER NOT NULL,
  workflow   INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  size_bytes INTEGER,
  producer   INTEGER,
  PRIMARY KEY (run, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  run                    INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  attempt                INTEGER NOT NULL,
  task                   INTEGER NOT NULL,
  try                    INTEGER NOT NULL,
  node                   INTEGER NOT NULL,
  hold_millicores        INTEGER NOT NULL,
  hold_memory_bytes      INTEGER NOT NULL,
  hold_disk_bps          INTEGER NOT NULL,
  planned_end_ns         INTEGER,
  estimate_ns            INTEGER,
  estimate_spread_ns     INTEGER,
  estimate_samples       INTEGER,
  estimate_source        TEXT,
  queued_ns              INTEGER,
  staged_ns              INTEGER,
  created_ns             INTEGER,
  started_ns             INTEGER,
  ended_ns               INTEGER,
  ran_ns                 INTEGER,
  outcome                TEXT,
  exit_code              INTEGER,
  message                TEXT,
  cpu_user_ns            INTEGER,
  cpu_system_ns          INTEGER,
  cpu_throttled_ns       INTEGER,
  peak_memory_bytes      INTEGER,
  read_bytes             INTEGER,
  written_bytes          INTEGER,
  read_ops               INTEGER,
  write_ops              INTEGER,
  copied_bytes           INTEGER,
  oom_kills              INTEGER,
  applied_cpu_millicores INTEGER,
  applied_memory_bytes   INTEGER,
  applied_memory_swap_bytes INTEGER,
  applied_pids           INTEGER,
  applied_read_bps       INTEGER,
  applied_write_bps      INTEGER,
  applied_read_iops      INTEGER,
  applied_write_iops     INTEGER,
  PRIMARY KEY (run, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  at_ns   INTEGER NOT NULL,
  round   INTEGER NOT NULL,
  orders  INTEGER NOT NULL,
  starts  INTEGER NOT NULL,
  waits   INTEGER NOT NULL,
  took_ns INTEGER NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE waits (
  run      INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  task     INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  since_ns INTEGER NOT NULL,
  reason   TEXT    NOT NULL,
  dim      TEXT,
  node     INTEGER,
  until_ns INTEGER,
  PRIMARY KEY (run, task, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
  run           INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  attempt       INTEGER NOT NULL,
  at_ns         INTEGER NOT NULL,
  cpu_ns        INTEGER,
  memory_bytes  INTEGER,
  read_bytes    INTEGER,
  written_bytes INTEGER,
  PRIMARY KEY (run, attempt, at_ns)
) STRICT, WITHOUT ROWID;

CREATE TABLE warnings (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  rule    TEXT    NOT NULL,
  message TEXT    NOT NULL,
  count   INTEGER NOT NULL,
  PRIMARY KEY (run, rule, message)
) STRICT;

-- Views: seconds and MB (10^6 bytes); "run" is the run's name.

CREATE VIEW v_runs AS
SELECT r.name AS run, r.runtime, r.policy, r.state, r.started_wall AS started, r.exit_code,
  (SELECT count(*) FROM workflows w WHERE w.run = r.id) AS workflows,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id) AS tasks,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'done') AS succeeded,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'failed') AS failed,
  (SELECT e.at_ns FROM events e WHERE e.run = r.id ORDER BY e.seq DESC LIMIT 1) / 1e9 AS clock_s,
  r.makespan_ns / 1e9 AS makespan_s, r.seed, r.time_scale, r.size_scale, r.resumes, r.version
FROM runs r;

CREATE VIEW v_attempts AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, a.outcome, a.exit_code,
  a.queued_ns, a.staged_ns, a.created_ns, a.started_ns, a.ended_ns, a.ran_ns,
  max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS suspended_ns,
  a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
    - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS measured_ns,
  a.estimate_ns, a.estimate_spread_ns, a.estimate_samples, a.estimate_source,
  a.cpu_user_ns, a.cpu_system_ns, a.cpu_throttled_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes,
  a.read_ops, a.write_ops, a.copied_bytes, a.oom_kills,
  a.hold_millicores, a.hold_memory_bytes, a.hold_disk_bps,
  a.applied_cpu_millicores, a.applied_memory_bytes, a.applied_memory_swap_bytes, a.applied_pids,
  a.applied_read_bps, a.applied_write_bps, a.applied_read_iops, a.applied_write_iops, a.message
FROM runs r
JOIN attempts a ON a.run = r.id
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

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
    (SELECT e.at_ns FROM events e WHERE e.run = r.id ORDER BY e.seq DESC LIMIT 1) AS clock_ns,
    (SELECT CASE WHEN total(p.state <> 'done') = 0 THEN max(w.arrived_ns, w.release_ns, coalesce(max(p.ended_ns), 0)) END
     FROM edges d JOIN tasks p ON p.run = d.run AND p.task = d.parent WHERE d.run = r.id AND d.child = t.task) AS ready_ns
  FROM runs r
  JOIN tasks t ON t.run = r.id
  JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
  LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
  LEFT JOIN nodes n ON n.run = r.id AND n.node = t.node
) x;

CREATE VIEW v_estimates AS
SELECT run, workflow, task, kind, attempt, node, estimate_source AS source, estimate_samples AS samples,
  estimate_ns / 1e9 AS estimated_s, estimate_spread_ns / 1e9 AS spread_s, measured_ns / 1e9 AS measured_s, ran_ns / 1e9 AS runtime_s,
  CASE WHEN measured_ns > 0 THEN 1.0 * estimate_ns / measured_ns END AS ratio
FROM v_attempts WHERE outcome = 'ok' AND estimate_ns IS NOT NULL;

CREATE VIEW v_kinds AS
SELECT t.run, t.kind, t.tasks, t.succeeded, t.failed, a.attempts, a.estimated_s, a.measured_s, a.measured_min_s, a.measured_max_s,
  a.runtime_s, a.cpu_s, a.cpu_total_s, a.throttled_s, a.peak_mb, a.read_mb, a.written_mb
FROM (
  SELECT r.id, r.name AS run, t.kind, count(*) AS tasks, sum(t.state = 'done') AS succeeded, sum(t.state = 'failed') AS failed
  FROM runs r JOIN tasks t ON t.run = r.id GROUP BY r.id, t.kind
) t LEFT JOIN (
  SELECT run, kind, count(*) AS attempts,
    avg(estimate_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS estimated_s,
    avg(measured_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS measured_s,
    min(measured_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS measured_min_s,
    max(measured_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS measured_max_s,
    avg(ran_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS runtime_s,
    avg(cpu_user_ns + cpu_system_ns) FILTER (WHERE outcome = 'ok') / 1e9 AS cpu_s,
    sum(cpu_user_ns + cpu_system_ns) / 1e9 AS cpu_total_s, sum(cpu_throttled_ns) / 1e9 AS throttled_s,
    max(peak_memory_bytes) / 1e6 AS peak_mb, sum(read_bytes) / 1e6 AS read_mb, sum(written_bytes) / 1e6 AS written_mb
  FROM v_attempts GROUP BY run, kind
) a ON a.run = t.run AND a.kind = t.kind;

CREATE VIEW v_workflows AS
SELECT r.name AS run, w.name AS workflow, w.label, w.tenant, w.class, w.state, w.tasks,
  (SELECT count(*) FROM tasks t INDEXED BY tasks_by_workflow WHERE t.run = r.id AND t.workflow = w.workflow AND t.state = 'done') AS succeeded,
  (SELECT count(*) FROM tasks t INDEXED BY tasks_by_workflow WHERE t.run = r.id AND t.workflow = w.workflow AND t.state = 'failed') AS failed,
  w.arrived_ns / 1e9 AS arrived_s, w.release_ns / 1e9 AS release_s, w.due_ns / 1e9 AS due_s,
  w.started_ns / 1e9 AS started_s, w.ended_ns / 1e9 AS ended_s,
  (w.started_ns - max(w.arrived_ns, w.release_ns)) / 1e9 AS wait_s,
  (w.ended_ns - w.started_ns) / 1e9 AS makespan_s,
  (w.ended_ns - w.arrived_ns) / 1e9 AS response_s
FROM runs r JOIN workflows w ON w.run = r.id;

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
    SELECT q.id, q.clock_ns, coalesce(q.makespan_ns, q.clock_ns - (SELECT min(w.arrived_ns) FROM workflows w WHERE w.run = q.id)) AS span_ns
    FROM (SELECT id, makespan_ns, (SELECT e.at_ns FROM events e WHERE e.run = runs.id ORDER BY e.seq DESC LIMIT 1) AS clock_ns FROM runs) q
  ) s ON s.id = r.id
  LEFT JOIN attempts a ON a.run = r.id AND a.node = n.node
  GROUP BY r.id, n.node
) x;

CREATE VIEW v_waits AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, x.reason, x.dim, n.name AS node,
  x.since_ns / 1e9 AS since_s, x.until_ns / 1e9 AS until_s
FROM runs r
JOIN tasks t ON t.run = r.id AND t.state = 'waiting'
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
JOIN waits x ON x.run = r.id AND x.task = t.task AND x.seq = (SELECT max(y.seq) FROM waits y WHERE y.run = r.id AND y.task = t.task)
LEFT JOIN nodes n ON n.run = r.id AND n.node = x.node;

PRAGMA user_version = 1;
