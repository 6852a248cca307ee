-- Version 5: simulations log events by the thousand, edges are kept with their tasks, and runs keep their metrics.

ALTER TABLE tasks ADD COLUMN parents TEXT;
UPDATE tasks SET parents = (SELECT json_group_array(e.parent) FROM edges e WHERE e.run = tasks.run AND e.child = tasks.task)
  WHERE EXISTS (SELECT 1 FROM edges e WHERE e.run = tasks.run AND e.child = tasks.task);
DROP TABLE edges;
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

DROP INDEX IF EXISTS tasks_by_workflow;

PRAGMA user_version = 5;
