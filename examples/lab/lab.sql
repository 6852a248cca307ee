-- What each user of a run got, planned and measured, as tables in Markdown:
--   cd DIR/POLICY && sqlite3 -readonly runs/gantry.sqlite <lab.sql
-- planned-ID.json beside runs/ has the end that gantry expected of submission ID when it was handed in. Planned core time is by the estimates
-- of tasks when they started.
CREATE TEMP TABLE planned AS
WITH said AS MATERIALIZED (SELECT name, data FROM fsdir('.') WHERE name LIKE '%planned-%.json')
SELECT s.value ->> 'name' AS name, (julianday(s.value ->> '$.expected.end') - 2440587.5) * 86400 - began AS end_s,
  (julianday(s.value ->> '$.expected.low') - 2440587.5) * 86400 - began AS low_s,
  (julianday(s.value ->> '$.expected.high') - 2440587.5) * 86400 - began AS high_s
FROM (SELECT started_unix_ns / 1e9 AS began FROM runs), said, json_each(said.data, '$.submissions') s
WHERE said.name LIKE '%planned-' || (s.value ->> 'id') || '.json';
CREATE TEMP TABLE flows AS
SELECT w.*, coalesce(w.started_s - w.arrived_s, 0) AS waited, p.end_s - w.arrived_s AS planned,
  p.low_s - w.arrived_s AS low, p.high_s - w.arrived_s AS high, w.due_s - w.arrived_s AS due, count(DISTINCT a.task) AS ran,
  total(a.cpu_user_ns + a.cpu_system_ns) / 1e9 AS cpu, total(a.hold_millicores / 1e12 * (a.ended_ns - a.queued_ns)) AS held,
  total(iif(a.ended_ns IS NULL, 0, a.hold_millicores / 1e12 * a.estimate_ns)) AS estimated
FROM v_workflows w JOIN v_attempts a ON a.run = w.run AND a.workflow = w.workflow LEFT JOIN planned p ON p.name = w.workflow
GROUP BY w.workflow;
SELECT '| user | workflow | tasks | handed in at | waited | took | planned | interval of 80 % | deadline | CPU |' || char(10) ||
  '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |';
SELECT printf('| %s | %s | %d | %.1f s | %.1f s | %.1f s | %s | %s | %s | %.1f s |', tenant, workflow, ran, arrived_s, waited, response_s,
  iif(planned IS NULL, '–', printf('%.1f s', planned)), iif(planned IS NULL, '–', printf('%.1f s to %.1f s', low, high)),
  iif(due IS NULL, '–', printf('%.1f s, ', due) || iif(response_s <= due, 'met', printf('missed by %.1f s', response_s - due))), cpu)
FROM flows ORDER BY arrived_s;
SELECT char(10) || '| user | workflows | turnaround planned | turnaround | waited | core time planned | core time held |' || char(10) ||
  '| --- | --- | --- | --- | --- | --- | --- |';
SELECT printf('| %s | %d | %s | %.1f s | %.1f s | %.1f s | %.1f s |', tenant, count(*), iif(count(planned) = 0, '–', printf('%.1f s',
  avg(planned)) || iif(count(planned) < count(*), printf(' (%d of %d)', count(planned), count(*)), '')), avg(response_s), avg(waited),
  sum(estimated), sum(held))
FROM flows GROUP BY tenant;
