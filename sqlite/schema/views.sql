-- Views for people: seconds (_s) and MB (10^6 bytes); "run" is the name of the run, in clocks, edges and run_counts its number. SQLite has no
-- statistics of the log: a sum over one run refers to that from outside, as a join would sum up all runs.

CREATE VIEW v_runs AS
SELECT r.name AS run, r.runtime, r.policy, r.state, r.started_wall AS started, r.exit_code,
  (SELECT count(*) FROM workflows w WHERE w.run = r.id AND w.state <> 'continued') AS workflows,
  (SELECT coalesce(sum(w.tasks), 0) FROM workflows w WHERE w.run = r.id AND w.state <> 'continued') AS tasks,
  coalesce(json_extract(n.counts, '$.done'), 0) AS succeeded, coalesce(json_extract(n.counts, '$.failed'), 0) AS failed,
  k.at_ns / 1e9 AS clock_s,
  r.makespan_ns / 1e9 AS makespan_s, r.seed, r.time_scale, r.size_scale, r.resumes, r.version
FROM runs r JOIN clocks k ON k.run = r.id JOIN run_counts n ON n.run = r.id;

CREATE VIEW v_attempts AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, a.outcome, a.exit_code, a.signal,
  a.queued_ns, a.staged_ns, a.created_ns, a.started_ns, a.ended_ns, a.ran_ns,
  max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS suspended_ns,
  a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
    - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)) AS measured_ns,
  a.done, a.before_ns, a.kept, a.lost_ns,
  a.planned_end_ns, a.estimate_ns, a.estimate_spread_ns, a.estimate_samples, a.estimate_source,
  a.cpu_user_ns, a.cpu_system_ns, a.cpu_throttled_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes,
  a.read_ops, a.write_ops, a.input_bytes, a.copied_bytes, a.moved_bytes, a.oom_kills, a.dropped_bytes, a.gpu_ns, a.peak_gpu_memory_bytes,
  a.hold_millicores, a.hold_memory_bytes, a.hold_disk_bps,
  a.applied_cpu_millicores, a.applied_memory_bytes, a.applied_memory_swap_bytes, a.applied_pids,
  a.applied_read_bps, a.applied_write_bps, a.applied_read_iops, a.applied_write_iops, a.gpus, a.message
FROM runs r
JOIN attempts a ON a.run = r.id
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

CREATE VIEW v_tasks AS
SELECT x.run, x.policy, x.workflow, x.task, x.kind, iif(x.state = 'waiting' AND x.ready_ns <= x.clock_ns, 'ready', x.state) AS state, x.node, x.attempts, coalesce(x.outcome, iif(x.from_run <> '', 'reused', NULL)) AS outcome, x.exit_code,
  x.ready_ns / 1e9 AS ready_s, x.started_ns / 1e9 AS started_s, x.ended_ns / 1e9 AS ended_s,
  max(0, CASE WHEN x.queued_ns IS NOT NULL THEN x.queued_ns WHEN x.state = 'waiting' THEN x.clock_ns END - x.ready_ns) / 1e9 AS wait_s, x.waited_for,
  x.planned_node, x.planned_start_ns / 1e9 AS planned_start_s, x.planned_end_ns / 1e9 AS planned_end_s,
  (x.ran_ns + coalesce(x.before_ns, 0)) / 1e9 AS runtime_s, (x.cpu_user_ns + x.cpu_system_ns) / 1e9 AS cpu_s, x.peak_memory_bytes / 1e6 AS peak_mb,
  x.read_bytes / 1e6 AS read_mb, x.written_bytes / 1e6 AS written_mb, x.gpu_ns / 1e9 AS gpu_s, x.peak_gpu_memory_bytes / 1e6 AS peak_gpu_mb,
  x.estimate_ns / 1e9 AS estimate_s, x.estimate_source, x.trace_runtime_ns / 1e9 AS trace_runtime_s, x.imputed,
  x.image, x.image_digest, x.command, iif(x.from_run <> '', x.from_run || ', attempt ' || x.from_attempt, NULL) AS reused_from, x.saved_ns / 1e9 AS saved_s
FROM (
  SELECT r.name AS run, r.policy, w.name AS workflow, t.name AS task, t.kind, t.state, n.name AS node, t.attempts, t.queued_ns,
    (SELECT group_concat(DISTINCT y.reason) FROM waits y WHERE y.run = t.run AND y.task = t.task) AS waited_for,
    coalesce((SELECT pn.name FROM waits p LEFT JOIN nodes pn ON pn.run = p.run AND pn.node = p.node
      WHERE p.run = t.run AND p.task = t.task AND p.reason = 'planned-later' ORDER BY p.seq DESC LIMIT 1), n.name) AS planned_node,
    coalesce((SELECT p.until_ns FROM waits p
      WHERE p.run = t.run AND p.task = t.task AND p.reason = 'planned-later' ORDER BY p.seq DESC LIMIT 1), t.queued_ns) AS planned_start_ns, a.planned_end_ns, a.estimate_source,
    t.trace_runtime_ns, t.imputed, t.image, coalesce(i.digest, i.id) AS image_digest, t.command, a.outcome, a.exit_code, a.started_ns, a.ended_ns, a.ran_ns, a.before_ns, a.cpu_user_ns, a.cpu_system_ns,
    a.peak_memory_bytes, a.read_bytes, a.written_bytes, a.gpu_ns, a.peak_gpu_memory_bytes, a.estimate_ns, u.from_run, u.from_attempt, u.ran_ns AS saved_ns,
    (SELECT k.at_ns FROM clocks k WHERE k.run = r.id) AS clock_ns,
    coalesce(t.ready_ns, (SELECT CASE WHEN total(p.state <> 'done') = 0 THEN max(w.arrived_ns, w.release_ns, coalesce(max(p.ended_ns), 0)) END
      FROM json_each(t.parents) d CROSS JOIN tasks p ON p.run = t.run AND p.task = d.value)) AS ready_ns -- of one that was never queued
  FROM runs r
  CROSS JOIN tasks t ON t.run = r.id AND t.state <> 'continued'
  CROSS JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
  LEFT JOIN reuses u ON u.run = r.id AND u.task = t.task
  LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
  LEFT JOIN nodes n ON n.run = r.id AND n.node = t.node
  LEFT JOIN images i ON i.run = r.id AND i.image = t.image
) x;

-- Each plan of a task: those for later, as they were announced, and the orders. The last attempt stands for what came of a plan for later.
CREATE VIEW v_planned AS
SELECT r.name AS run, r.policy, w.name AS workflow, t.name AS task, t.kind, x.since_ns / 1e9 AS made_s, n.name AS planned_node, x.until_ns / 1e9 AS planned_start_s,
  NULL AS planned_end_s, an.name AS node, a.queued_ns / 1e9 AS ordered_s, a.ended_ns / 1e9 AS ended_s, (a.queued_ns - x.until_ns) / 1e9 AS late_s
FROM runs r
CROSS JOIN tasks t ON t.run = r.id AND t.state <> 'continued'
CROSS JOIN waits x ON x.run = r.id AND x.task = t.task AND x.reason = 'planned-later'
CROSS JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN attempts a ON a.run = r.id AND a.attempt = t.attempt
LEFT JOIN nodes n ON n.run = r.id AND n.node = x.node
LEFT JOIN nodes an ON an.run = r.id AND an.node = a.node
UNION ALL
SELECT r.name, r.policy, w.name, t.name, t.kind, a.queued_ns / 1e9, n.name, a.queued_ns / 1e9,
  a.planned_end_ns / 1e9, n.name, a.queued_ns / 1e9, a.ended_ns / 1e9, (a.ended_ns - a.planned_end_ns) / 1e9
FROM runs r
JOIN attempts a ON a.run = r.id
JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;

CREATE VIEW v_estimates AS
SELECT run, workflow, task, kind, attempt, node, estimate_source AS source, estimate_samples AS samples,
  estimate_ns / 1e9 AS estimated_s, estimate_spread_ns / 1e9 AS spread_s, measured_ns / 1e9 AS measured_s, ran_ns / 1e9 AS runtime_s,
  CASE WHEN measured_ns > 0 THEN 1.0 * estimate_ns / measured_ns END AS ratio
FROM v_attempts WHERE outcome = 'ok' AND estimate_ns IS NOT NULL;

-- Sums are kept as whole numbers, so that JSON does not round them.
CREATE VIEW v_kinds AS
SELECT r.name AS run, json_extract(k.value, '$[0]') AS kind, json_extract(k.value, '$[1]') AS tasks, json_extract(k.value, '$[2]') AS succeeded, json_extract(k.value, '$[3]') AS failed, nullif(json_extract(k.value, '$[4]'), 0) AS attempts,
  1.0 * json_extract(k.value, '$[5]') / json_extract(k.value, '$[6]') / 1e9 AS estimated_s, 1.0 * json_extract(k.value, '$[7]') / json_extract(k.value, '$[8]') / 1e9 AS measured_s,
  json_extract(k.value, '$[9]') / 1e9 AS measured_min_s, json_extract(k.value, '$[10]') / 1e9 AS measured_max_s,
  1.0 * json_extract(k.value, '$[11]') / json_extract(k.value, '$[12]') / 1e9 AS runtime_s, 1.0 * json_extract(k.value, '$[13]') / json_extract(k.value, '$[14]') / 1e9 AS cpu_s,
  json_extract(k.value, '$[15]') / 1e9 AS cpu_total_s, json_extract(k.value, '$[16]') / 1e9 AS throttled_s,
  json_extract(k.value, '$[17]') / 1e6 AS peak_mb, json_extract(k.value, '$[18]') / 1e6 AS read_mb, json_extract(k.value, '$[19]') / 1e6 AS written_mb,
  json_extract(k.value, '$[20]') / 1e9 AS gpu_total_s, json_extract(k.value, '$[21]') / 1e6 AS peak_gpu_mb
FROM runs r CROSS JOIN json_each((
  SELECT json_group_array(json_array(y.kind, y.tasks, y.succeeded, y.failed, y.attempts, y.estimated, y.estimates, y.measured, y.measurements,
    y.shortest, y.longest, y.ran, y.runs, y.cpu, y.cpus, y.cpu_total, y.throttled, y.peak, y.bytes_read, y.bytes_written, y.gpu, y.gpu_peak))
  FROM (
    SELECT x.kind, count(x.state) AS tasks, count(*) FILTER (WHERE x.state = 'done') AS succeeded, count(*) FILTER (WHERE x.state = 'failed') AS failed, count(x.attempt) AS attempts,
      sum(x.estimate_ns) FILTER (WHERE x.outcome = 'ok') AS estimated, count(x.estimate_ns) FILTER (WHERE x.outcome = 'ok') AS estimates,
      sum(x.measured_ns) FILTER (WHERE x.outcome = 'ok') AS measured, count(x.measured_ns) FILTER (WHERE x.outcome = 'ok') AS measurements,
      min(x.measured_ns) FILTER (WHERE x.outcome = 'ok') AS shortest, max(x.measured_ns) FILTER (WHERE x.outcome = 'ok') AS longest,
      sum(x.ran_ns) FILTER (WHERE x.outcome = 'ok') AS ran, count(x.ran_ns) FILTER (WHERE x.outcome = 'ok') AS runs,
      sum(x.cpu_ns) FILTER (WHERE x.outcome = 'ok') AS cpu, count(x.cpu_ns) FILTER (WHERE x.outcome = 'ok') AS cpus,
      sum(x.cpu_ns) AS cpu_total, sum(x.cpu_throttled_ns) AS throttled,
      max(x.peak_memory_bytes) AS peak, sum(x.read_bytes) AS bytes_read, sum(x.written_bytes) AS bytes_written,
      sum(x.gpu_ns) AS gpu, max(x.peak_gpu_memory_bytes) AS gpu_peak
    FROM (
      SELECT t.kind, t.state, NULL AS attempt, NULL AS outcome, NULL AS estimate_ns, NULL AS measured_ns, NULL AS ran_ns, NULL AS cpu_ns,
        NULL AS cpu_throttled_ns, NULL AS peak_memory_bytes, NULL AS read_bytes, NULL AS written_bytes, NULL AS gpu_ns, NULL AS peak_gpu_memory_bytes
      FROM tasks t WHERE t.run = r.id AND t.state <> 'continued'
      UNION ALL
      SELECT t.kind, NULL, a.attempt, a.outcome, iif(a.estimate_source = 'default', NULL, a.estimate_ns), a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
          - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0)), a.ran_ns, a.cpu_user_ns + a.cpu_system_ns,
        a.cpu_throttled_ns, a.peak_memory_bytes, a.read_bytes, a.written_bytes, a.gpu_ns, a.peak_gpu_memory_bytes
      FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task WHERE a.run = r.id
    ) x GROUP BY x.kind HAVING count(x.state) > 0
  ) y)) k;

-- Tasks with which a workflow arrives are numbered one after the other, and tasks that it gets later are behind them: no index is needed to find them.
CREATE VIEW v_workflows AS
SELECT r.name AS run, w.name AS workflow, w.label, w.tenant, w.class, w.state, w.tasks,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.task BETWEEN w.first_task AND w.last_task AND t.workflow = w.workflow AND t.state = 'done') AS succeeded,
  (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.task BETWEEN w.first_task AND w.last_task AND t.workflow = w.workflow AND t.state = 'failed') AS failed,
  w.arrived_ns / 1e9 AS arrived_s, w.release_ns / 1e9 AS release_s, w.due_ns / 1e9 AS due_s,
  w.started_ns / 1e9 AS started_s, w.ended_ns / 1e9 AS ended_s,
  (w.started_ns - max(w.arrived_ns, w.release_ns)) / 1e9 AS wait_s,
  (w.ended_ns - w.started_ns) / 1e9 AS makespan_s,
  (w.ended_ns - w.arrived_ns) / 1e9 AS response_s
FROM runs r JOIN (
  SELECT w.*, coalesce((SELECT g.first_task + g.tasks FROM growths g WHERE g.run = w.run AND g.workflow = w.workflow
    ORDER BY g.first_task DESC LIMIT 1), w.first_task + w.tasks) - 1 AS last_task FROM workflows w
) w ON w.run = r.id AND w.state <> 'continued';

-- The sums are kept by node in an object: a join with them would sum up all runs of the log, whichever is asked for.
CREATE VIEW v_utilisation AS
SELECT x.run, x.node, x.cores, x.speed, x.attempts, x.span_s, x.held_core_s, x.used_core_s,
  100 * x.held_core_s / nullif(x.cores * x.span_s, 0) AS held_pct,
  100 * x.used_core_s / nullif(x.cores * x.span_s, 0) AS used_pct
FROM (
  SELECT g.run, n.name AS node, n.capacity_millicores / 1e3 AS cores, n.speed, g.span_ns / 1e9 AS span_s,
    coalesce(json_extract(g.sums, ('$.' || n.node || '[0]')), 0) AS attempts, coalesce(json_extract(g.sums, ('$.' || n.node || '[1]')), 0.0) AS held_core_s, json_extract(g.sums, ('$.' || n.node || '[2]')) AS used_core_s
  FROM (
    SELECT r.name AS run, r.id, coalesce(r.makespan_ns, k.at_ns - (SELECT min(w.arrived_ns) FROM workflows w WHERE w.run = r.id)) AS span_ns,
      (SELECT json_group_object(s.node, json_array(s.attempts, s.held, s.used)) FROM (
        SELECT a.node, count(*) AS attempts, total(a.hold_millicores / 1e3 * (coalesce(a.ended_ns, k.at_ns) - a.queued_ns
          - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0))) / 1e9) AS held, sum(a.cpu_user_ns + a.cpu_system_ns) / 1e9 AS used
        FROM attempts a WHERE a.run = r.id GROUP BY a.node) s) AS sums
    FROM runs r JOIN clocks k ON k.run = r.id GROUP BY r.name
  ) g JOIN nodes n ON n.run = g.id
) x;

CREATE VIEW v_memory AS
SELECT x.run, x.kind, count(*) AS attempts, total(x.outcome = 'out-of-memory') AS out_of_memory, sum(x.held * x.hours) AS held_gbh,
  total(x.used * x.hours) AS used_gbh, total((x.held - x.used) * x.hours) AS wasted_gbh, 100 * total(x.used * x.hours) / nullif(sum(x.held * x.hours), 0) AS used_pct,
  total((x.declared - x.held) * x.hours) AS saved_gbh, 100 * total((x.declared - x.held) * x.hours) / nullif(sum(x.declared * x.hours), 0) AS saved_pct
FROM (
  SELECT r.name AS run, t.kind, a.outcome, a.hold_memory_bytes / 1e9 AS held, (a.ended_ns - a.queued_ns) / 3.6e12 AS hours,
    iif(a.outcome = 'ok', min(a.peak_memory_bytes, a.hold_memory_bytes), 0) / 1e9 AS used, -- what failed was held in vain
    -- With the declared memory there would have been no try that ran out of less.
    iif(t.declared_memory_bytes IS NULL, a.hold_memory_bytes, iif(a.outcome = 'out-of-memory' AND a.hold_memory_bytes < t.declared_memory_bytes, 0, t.declared_memory_bytes)) / 1e9 AS declared
  FROM runs r JOIN attempts a ON a.run = r.id AND a.ended_ns IS NOT NULL AND a.peak_memory_bytes IS NOT NULL
  JOIN tasks t ON t.run = r.id AND t.task = a.task
) x GROUP BY x.run, x.kind;

-- A task that waits has a row of its own, whatever the run; its last wait is the reason.
CREATE VIEW v_waits AS
SELECT y.run, y.workflow, y.task, y.kind, y.reason, y.dim, y.node, y.since_ns / 1e9 AS since_s, y.until_ns / 1e9 AS until_s
FROM (
  SELECT x.run, x.workflow, x.task, x.kind, x.reason, x.dim, x.node, x.since_ns, x.until_ns,
    row_number() OVER (PARTITION BY x.run, x.id ORDER BY x.seq DESC) AS last
  FROM (
    SELECT r.name AS run, w.name AS workflow, t.task AS id, t.name AS task, t.kind, x.seq, x.reason, x.dim, n.name AS node, x.since_ns, x.until_ns
    FROM runs r
    CROSS JOIN tasks t ON t.run = r.id AND t.state = 'waiting'
    JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
    CROSS JOIN waits x ON x.run = r.id AND x.task = t.task
    LEFT JOIN nodes n ON n.run = r.id AND n.node = x.node
  ) x
) y WHERE y.last = 1;

CREATE VIEW v_notes AS
SELECT r.name AS run, x.at_ns / 1e9 AS at_s, x.topic, w.name AS workflow, t.name AS task, x.instant_ns / 1e9 AS instant_s, x.text
FROM runs r
CROSS JOIN notes x ON x.run = r.id
LEFT JOIN tasks t ON t.run = r.id AND t.task = x.task
LEFT JOIN workflows w ON w.run = r.id AND w.workflow = coalesce(x.workflow, t.workflow);

CREATE VIEW v_replicas AS
SELECT r.name AS run, w.name AS workflow, f.name AS file, f.size_bytes / 1e6 AS size_mb, p.replica, n.name AS node, n.node_group
FROM runs r
JOIN replicas p ON p.run = r.id
JOIN files f ON f.run = r.id AND f.file = p.file
JOIN workflows w ON w.run = r.id AND w.workflow = f.workflow
JOIN nodes n ON n.run = r.id AND n.node = p.node;

CREATE VIEW v_locality AS
SELECT x.run, w.name AS workflow, w.tenant, x.attempts, x.input / 1e6 AS input_mb, x.local / 1e6 AS local_mb, x.copied / 1e6 AS copied_mb,
  100.0 * x.local / nullif(x.input, 0) AS local_pct
FROM (
  SELECT r.name AS run, r.id, t.workflow, count(*) AS attempts, sum(a.input_bytes) AS input,
    coalesce(sum(a.input_bytes - a.copied_bytes), 0) AS local, coalesce(sum(a.copied_bytes), 0) AS copied
  FROM runs r CROSS JOIN attempts a ON a.run = r.id AND a.started_ns IS NOT NULL AND a.input_bytes IS NOT NULL
  CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task GROUP BY r.name, t.workflow
) x JOIN workflows w ON w.run = x.id AND w.workflow = x.workflow;

CREATE VIEW edges AS
SELECT t.run, t.task AS child, p.value AS parent FROM tasks t, json_each(t.parents) p;

CREATE VIEW v_events AS
SELECT r.name AS run, e.seq, e.at_ns / 1e9 AS at_s, e.kind, e.subject, e.body FROM runs r JOIN events e ON e.run = r.id;

CREATE VIEW v_plans AS
SELECT r.name AS run, e.subject AS round, e.at_ns / 1e9 AS at_s,
  coalesce(json_array_length(e.body, '$.orders'), 0) AS orders,
  (SELECT count(*) FROM json_each(e.body, '$.orders') o WHERE json_extract(o.value, '$[0]') = 1) AS starts,
  coalesce(json_array_length(e.body, '$.waits'), 0) AS waits, coalesce(json_extract(e.body, '$.took_ns'), 0) / 1e9 AS took_s
FROM runs r JOIN events e ON e.run = r.id AND e.kind = 9;

CREATE VIEW v_metrics AS
SELECT r.name AS run, r.policy, r.runtime, m.name, m.value FROM runs r JOIN run_metrics m ON m.run = r.id;

CREATE VIEW v_slowdowns AS
SELECT r.name AS run, w.workflow AS position, w.name AS workflow, w.tasks, m.counts, w.arrived_ns / 1e9 AS arrived_s, w.due_ns / 1e9 AS due_s, m.wait_ns / 1e9 AS wait_s, m.makespan_ns / 1e9 AS makespan_s, m.response_ns / 1e9 AS response_s,
  m.work_ns / 1e9 AS work_s, m.critical_path_ns / 1e9 AS critical_path_s,
  1.0 * m.response_ns / nullif(m.critical_path_ns, 0) AS slowdown, 1.0 * m.response_ns / nullif(m.lowest_ns, 0) AS slr
FROM runs r JOIN workflow_metrics m ON m.run = r.id JOIN workflows w ON w.run = r.id AND w.workflow = m.workflow AND w.state <> 'continued';

CREATE VIEW v_in_system AS
SELECT run, at_ns / 1e9 AS at_s, sum(step) OVER (PARTITION BY run ORDER BY at_ns, step) AS workflows FROM (
  SELECT r.name AS run, w.arrived_ns AS at_ns, 1 AS step FROM runs r JOIN workflows w ON w.run = r.id
  UNION ALL
  SELECT r.name, w.ended_ns, -1 FROM runs r JOIN workflows w ON w.run = r.id WHERE w.ended_ns IS NOT NULL
);

CREATE VIEW v_predictions AS
SELECT x.run, x.made_s, x.scope, x.name, x.basis, x.tasks, x.repetitions, x.expected_ns / 1e9 AS predicted_s, x.low_ns / 1e9 AS low_s, x.high_ns / 1e9 AS high_s,
  x.actual_ns / 1e9 AS actual_s, 100.0 * (x.expected_ns - x.actual_ns) / nullif(x.actual_ns, 0) AS error_pct,
  CASE WHEN x.high_ns > x.low_ns THEN x.actual_ns BETWEEN x.low_ns AND x.high_ns END AS within
FROM (
  SELECT r.name AS run, p.at_ns / 1e9 AS made_s, p.scope, p.name, p.basis, p.tasks, p.repetitions, p.expected_ns, p.low_ns, p.high_ns,
    CASE p.scope
      WHEN 'run' THEN r.makespan_ns
      WHEN 'workflow' THEN (SELECT iif(w.state = 'done', w.ended_ns - w.started_ns, NULL) FROM workflows w
        WHERE w.run = r.id AND w.name = p.name AND w.state <> 'continued' ORDER BY w.workflow DESC LIMIT 1)
      ELSE (SELECT CAST(avg(a.ended_ns - coalesce(a.staged_ns, a.created_ns, a.started_ns, a.queued_ns)
          - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0))) AS INTEGER)
        FROM attempts a CROSS JOIN tasks t ON t.run = a.run AND t.task = a.task
        WHERE a.run = r.id AND t.kind = p.name AND a.outcome = 'ok')
    END AS actual_ns
  FROM runs r JOIN predictions p ON p.run = r.id
) x;

-- counts of runs, also while they are under way and then by look-ups: what is not done has an index, and the other tasks of a real run are done.
-- A simulation has rows of workflows that have ended. The conditions on tasks and state are those of the partial indexes.
CREATE VIEW run_counts AS
SELECT r.id AS run, coalesce(r.counts, (SELECT json_group_object(x.state, x.n) FROM (
  SELECT t.state, count(*) AS n FROM tasks t WHERE t.run = r.id AND t.state <> 'done' GROUP BY t.state
  UNION ALL SELECT 'done', CASE
    WHEN r.runtime = 'sim' THEN (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state = 'done')
    ELSE (SELECT coalesce(sum(w.tasks), 0) FROM workflows w WHERE w.run = r.id AND w.tasks >= 0)
      - (SELECT count(*) FROM tasks t WHERE t.run = r.id AND t.state <> 'done') END
  UNION ALL SELECT 'workflows', count(*) FROM workflows w WHERE w.run = r.id AND w.state <> 'continued' AND w.tasks >= 0) x)) AS counts
FROM runs r;

-- The last event of a run, and so its clock.
CREATE VIEW clocks AS
SELECT r.id AS run, (SELECT e.at_ns FROM events e WHERE e.run = r.id ORDER BY e.seq DESC LIMIT 1) AS at_ns FROM runs r;

CREATE VIEW v_suspensions AS
SELECT r.name AS run, w.name AS workflow, t.name AS task, t.kind, a.attempt, a.try, n.name AS node, s.how,
  s.ordered_ns / 1e9 AS ordered_s, s.since_ns / 1e9 AS since_s, s.until_ns / 1e9 AS until_s, (s.until_ns - s.since_ns) / 1e9 AS away_s,
  iif(s.how = 'checkpoint', a.kept, NULL) AS kept, s.lost_ns / 1e9 AS lost_s
FROM runs r
CROSS JOIN suspensions s ON s.run = r.id
CROSS JOIN attempts a ON a.run = r.id AND a.attempt = s.attempt
CROSS JOIN tasks t ON t.run = r.id AND t.task = a.task
JOIN workflows w ON w.run = r.id AND w.workflow = t.workflow
LEFT JOIN nodes n ON n.run = r.id AND n.node = a.node;
