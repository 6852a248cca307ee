-- Version 3: files from outside that lie on some nodes only, and what attempts read of them where it lay.

CREATE TABLE replicas (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  file    INTEGER NOT NULL,
  node    INTEGER NOT NULL,
  replica INTEGER NOT NULL,
  PRIMARY KEY (run, file, node)
) STRICT, WITHOUT ROWID;

ALTER TABLE attempts ADD COLUMN input_bytes INTEGER;

DROP VIEW v_attempts;

CREATE VIEW v_attempts AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, a.outcome, a.exit_code,
  a.queued_ns, a.staged_ns, a.created_ns, a.started_ns, a.ended_ns, a.ran_ns,
  max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS suspended_ns,
  a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
    - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS measured_ns,
  a.estimate_ns, a.estimate_spread_ns, a.estimate_samples, a.estimate_source,
  a.cpu_user_ns, a.cpu_system_ns, a.cpu_throttled_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes,
  a.read_ops, a.write_ops, a.input_bytes, a.copied_bytes, a.oom_kills,
  a.hold_millicores, a.hold_memory_bytes, a.hold_disk_bps,
  a.applied_cpu_millicores, a.applied_memory_bytes, a.applied_memory_swap_bytes, a.applied_pids,
  a.applied_read_bps, a.applied_write_bps, a.applied_read_iops, a.applied_write_iops, a.message
FROM runs r
JOIN attempts a ON a.run = r.id
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

CREATE VIEW v_replicas AS
SELECT r.name AS run, w.name AS workflow, f.name AS file, f.size_bytes / 1e6 AS size_mb, p.replica, n.name AS node, n.node_group
FROM runs r
JOIN replicas p ON p.run = r.id
JOIN files f ON f.run = r.id AND f.file = p.file
JOIN workflows w ON w.run = r.id AND w.workflow = f.workflow
JOIN nodes n ON n.run = r.id AND n.node = p.node;

CREATE VIEW v_locality AS
SELECT r.name AS run, w.name AS workflow, w.tenant, count(*) AS attempts, total(a.input_bytes) / 1e6 AS input_mb,
  total(a.input_bytes - a.copied_bytes) / 1e6 AS local_mb, total(a.copied_bytes) / 1e6 AS copied_mb,
  100.0 * total(a.input_bytes - a.copied_bytes) / nullif(total(a.input_bytes), 0) AS local_pct
FROM runs r
JOIN attempts a ON a.run = r.id AND a.started_ns IS NOT NULL AND a.input_bytes IS NOT NULL
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
GROUP BY r.id, w.workflow;

PRAGMA user_version = 3;
