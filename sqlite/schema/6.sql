-- Version 6: preemptions, what checkpoints keep, and what is lost.

ALTER TABLE attempts ADD COLUMN done REAL;
ALTER TABLE attempts ADD COLUMN before_ns INTEGER;
ALTER TABLE attempts ADD COLUMN kept REAL;
ALTER TABLE attempts ADD COLUMN lost_ns INTEGER;
ALTER TABLE attempts ADD COLUMN moved_bytes INTEGER;

UPDATE attempts SET lost_ns = iif(outcome = 'ok', 0, coalesce(ran_ns, 0)) WHERE outcome IS NOT NULL;

CREATE TABLE suspensions (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  attempt    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  ordered_ns INTEGER NOT NULL,
  how        TEXT    NOT NULL,
  since_ns   INTEGER,
  until_ns   INTEGER,
  lost_ns    INTEGER,
  PRIMARY KEY (run, attempt, seq)
) STRICT, WITHOUT ROWID;

DROP VIEW v_attempts;

CREATE VIEW v_attempts AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, a.outcome, a.exit_code,
  a.queued_ns, a.staged_ns, a.created_ns, a.started_ns, a.ended_ns, a.ran_ns,
  max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS suspended_ns,
  a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
    - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS measured_ns,
  a.done, a.before_ns, a.kept, a.lost_ns,
  a.estimate_ns, a.estimate_spread_ns, a.estimate_samples, a.estimate_source,
  a.cpu_user_ns, a.cpu_system_ns, a.cpu_throttled_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes,
  a.read_ops, a.write_ops, a.input_bytes, a.copied_bytes, a.moved_bytes, a.oom_kills,
  a.hold_millicores, a.hold_memory_bytes, a.hold_disk_bps,
  a.applied_cpu_millicores, a.applied_memory_bytes, a.applied_memory_swap_bytes, a.applied_pids,
  a.applied_read_bps, a.applied_write_bps, a.applied_read_iops, a.applied_write_iops, a.message
FROM runs r
JOIN attempts a ON a.run = r.id
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

DROP VIEW v_tasks;

CREATE VIEW v_tasks AS
SELECT x.run, x.workflow, x.task, x.kind, iif(x.state = 'waiting' AND x.ready_ns <= x.clock_ns, 'ready', x.state) AS state, x.node, x.attempts, x.outcome, x.exit_code,
  x.ready_ns / 1e9 AS ready_s, x.started_ns / 1e9 AS started_s, x.ended_ns / 1e9 AS ended_s,
  max(0, CASE WHEN x.queued_ns IS NOT NULL THEN x.queued_ns WHEN x.state = 'waiting' THEN x.clock_ns END - x.ready_ns) / 1e9 AS wait_s,
  (x.ran_ns + coalesce(x.before_ns, 0)) / 1e9 AS runtime_s, (x.cpu_user_ns + x.cpu_system_ns) / 1e9 AS cpu_s, x.peak_memory_bytes / 1e6 AS peak_mb,
  x.read_bytes / 1e6 AS read_mb, x.written_bytes / 1e6 AS written_mb,
  x.estimate_ns / 1e9 AS estimate_s, x.trace_runtime_ns / 1e9 AS trace_runtime_s, x.imputed
FROM (
  SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, t.state, n.name AS node, t.attempts, t.queued_ns,
    t.trace_runtime_ns, t.imputed, a.outcome, a.exit_code, a.started_ns, a.ended_ns, a.ran_ns, a.before_ns, a.cpu_user_ns, a.cpu_system_ns,
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

CREATE VIEW v_suspensions AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, s.how,
  s.ordered_ns / 1e9 AS ordered_s, s.since_ns / 1e9 AS since_s, s.until_ns / 1e9 AS until_s, (s.until_ns - s.since_ns) / 1e9 AS away_s,
  iif(s.how = 'checkpoint', a.kept, NULL) AS kept, s.lost_ns / 1e9 AS lost_s
FROM runs r
JOIN suspensions s ON s.run = r.id
JOIN attempts a ON a.run = r.id AND a.attempt = s.attempt
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

PRAGMA user_version = 6;
