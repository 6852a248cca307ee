-- Version 8: utilisation in one pass over the attempts of a run, where every node took one of its own. The sums are kept by node in an object, as
-- a join with them would sum up all runs of the log, whichever is asked for.

DROP VIEW v_utilisation;
CREATE VIEW v_utilisation AS
SELECT x.run, x.node, x.cores, x.speed, x.attempts, x.span_s, x.held_core_s, x.used_core_s,
  100 * x.held_core_s / nullif(x.cores * x.span_s, 0) AS held_pct,
  100 * x.used_core_s / nullif(x.cores * x.span_s, 0) AS used_pct
FROM (
  SELECT g.run, n.name AS node, n.capacity_millicores / 1e3 AS cores, n.speed, g.span_ns / 1e9 AS span_s,
    coalesce(g.sums ->> ('$.' || n.node || '[0]'), 0) AS attempts, coalesce(g.sums ->> ('$.' || n.node || '[1]'), 0.0) AS held_core_s, g.sums ->> ('$.' || n.node || '[2]') AS used_core_s
  FROM (
    SELECT r.name AS run, r.id, coalesce(r.makespan_ns, k.at_ns - (SELECT min(w.arrived_ns) FROM workflows w WHERE w.run = r.id)) AS span_ns,
      (SELECT json_group_object(s.node, json_array(s.attempts, s.held, s.used)) FROM (
        SELECT a.node, count(*) AS attempts, total(a.hold_millicores / 1e3 * (coalesce(a.ended_ns, k.at_ns) - a.queued_ns
          - max(0, coalesce(a.ended_ns - a.started_ns - a.ran_ns, 0))) / 1e9) AS held, sum(a.cpu_user_ns + a.cpu_system_ns) / 1e9 AS used
        FROM attempts a WHERE a.run = r.id GROUP BY a.node) s) AS sums
    FROM runs r JOIN clocks k ON k.run = r.id GROUP BY r.name
  ) g JOIN nodes n ON n.run = g.id
) x;

PRAGMA user_version = 8;
