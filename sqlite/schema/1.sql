-- Version 1 of gantry's log. FORMAT.md documents every table, column and view. Views are in views.sql.

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

PRAGMA user_version = 1;
