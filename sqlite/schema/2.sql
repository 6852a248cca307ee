-- Version 2: notes of policies.

CREATE TABLE notes (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  at_ns      INTEGER NOT NULL,
  topic      TEXT    NOT NULL,
  workflow   INTEGER,
  task       INTEGER,
  instant_ns INTEGER,
  text       TEXT    NOT NULL,
  PRIMARY KEY (run, seq, position)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_notes AS
SELECT r.name AS run, x.at_ns / 1e9 AS at_s, x.topic, w.name AS workflow, t.name AS task, x.instant_ns / 1e9 AS instant_s, x.text
FROM runs r
JOIN notes x ON x.run = r.id
LEFT JOIN tasks t ON t.run = r.id AND t.task = x.task
LEFT JOIN workflows w ON w.run = r.id AND w.workflow = coalesce(x.workflow, t.workflow);

PRAGMA user_version = 2;
