-- Version 7: events of simulations say no more than does not follow from the rest; v_events says it all.

DROP VIEW v_events;
CREATE VIEW v_events AS
SELECT r.name AS run, e.seq, e.at_ns / 1e9 AS at_s, e.kind, e.body FROM runs r JOIN events e ON e.run = r.id
UNION ALL
SELECT x.run, x.seq, x.at_ns / 1e9, x.kind, CASE
  WHEN x.v >= 4 AND x.kind = 5 AND x.body -> 'usage' IS NULL THEN
    json_set(x.body, '$.usage', json_patch('{}', json_object('queued_ns', x.began_ns, 'staged_ns', x.began_ns, 'created_ns', x.began_ns,
      'started_ns', x.began_ns, 'ended_ns', nullif(x.at_ns, 0), 'missing', 15)))
  WHEN x.kind = 9 AND x.body -> 'starts' IS NOT NULL THEN
    json_patch('{}', json_object('round', x.body ->> 'round', 'took_ns', x.body ->> 'took_ns', 'orders', json((
      SELECT json_group_array(json(o.text)) FROM (SELECT json_patch('{}', json_object('kind', 1, 'attempt', nullif(s.value ->> 0, 0), 'task', nullif(s.value ->> 1, 0),
        'node', nullif(s.value ->> 2, 0), 'hold', iif(t.task IS NULL, NULL, json_array(t.need_millicores, t.need_memory_bytes, t.need_disk_bps)),
        'try', 1, 'until_ns', nullif(x.at_ns + (s.value ->> 3), 0), 'estimate', json_patch('{}', json_object('run_ns', nullif(s.value ->> 3, 0), 'source', 1)))) AS text
        FROM json_each(x.body, '$.starts') s LEFT JOIN tasks t ON t.run = x.id AND t.task = s.value ->> 1 ORDER BY s.key) o)),
      'waits', json(x.body -> 'waits'), 'notes', json(x.body -> 'notes')))
  ELSE x.body END
FROM (
  SELECT r.id, r.name AS run, c.v, c.seq + j.key AS seq, j.value ->> 0 AS at_ns, j.value ->> 1 AS kind, j.value -> 2 AS body,
    nullif((j.value ->> 0) - coalesce(j.value -> 2 ->> 'ran_ns', 0), 0) AS began_ns
  FROM runs r JOIN event_chunks c ON c.run = r.id, json_each(c.bodies) j
) x;

DROP VIEW v_plans;
CREATE VIEW v_plans AS
SELECT r.name AS run, p.round, p.at_ns / 1e9 AS at_s, p.orders, p.starts, p.waits, p.took_ns / 1e9 AS took_s
FROM runs r JOIN plans p ON p.run = r.id
UNION ALL
SELECT x.run, x.body ->> 'round', x.at_s, coalesce(json_array_length(x.body, '$.orders'), 0) + coalesce(json_array_length(x.body, '$.starts'), 0),
  (SELECT count(*) FROM json_each(x.body, '$.orders') o WHERE o.value ->> 'kind' = 1) + coalesce(json_array_length(x.body, '$.starts'), 0),
  coalesce(json_array_length(x.body, '$.waits'), 0), coalesce(x.body ->> 'took_ns', 0) / 1e9
FROM (
  SELECT r.name AS run, (j.value ->> 0) / 1e9 AS at_s, j.value -> 2 AS body
  FROM runs r JOIN event_chunks c ON c.run = r.id, json_each(c.bodies) j WHERE j.value ->> 1 = 9
) x;

PRAGMA user_version = 7;
