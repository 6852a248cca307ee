-- The tables of the log, format 1. FORMAT.md documents every table, view and column. Views are in views.sql.

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
  makespan_ns     INTEGER,
  peak_disk_bytes INTEGER,
  counts          TEXT
) STRICT;

CREATE TABLE nodes (
  run                   INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  node                  INTEGER NOT NULL,
  name                  TEXT    NOT NULL,
  node_group            TEXT    NOT NULL,
  capacity_millicores   INTEGER,
  capacity_memory_bytes INTEGER,
  capacity_disk_bps     INTEGER,
  speed                 REAL    NOT NULL,
  PRIMARY KEY (run, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE images (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  image      TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  digest     TEXT,
  platform   TEXT    NOT NULL,
  size_bytes INTEGER NOT NULL,
  source     TEXT    NOT NULL,
  took_ns    INTEGER NOT NULL,
  PRIMARY KEY (run, image)
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
  first_task INTEGER,
  tasks      INTEGER NOT NULL,
  state      TEXT    NOT NULL DEFAULT 'waiting',
  started_ns INTEGER,
  ended_ns   INTEGER,
  continues  INTEGER,
  definition BLOB    NOT NULL,
  PRIMARY KEY (run, workflow)
) STRICT;

CREATE TABLE growths (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  workflow   INTEGER NOT NULL,
  first_task INTEGER NOT NULL,
  tasks      INTEGER NOT NULL,
  definition BLOB    NOT NULL,
  PRIMARY KEY (run, workflow, first_task)
) STRICT;

CREATE TABLE tasks (
  run               INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  task              INTEGER NOT NULL,
  workflow          INTEGER NOT NULL,
  name              TEXT    NOT NULL,
  kind              TEXT    NOT NULL,
  stage             INTEGER NOT NULL,
  parents           TEXT,
  inputs            TEXT,
  outputs           TEXT,
  state             TEXT    NOT NULL DEFAULT 'waiting',
  node              INTEGER,
  attempts          INTEGER NOT NULL DEFAULT 0,
  attempt           INTEGER,
  ready_ns          INTEGER,
  queued_ns         INTEGER,
  ended_ns          INTEGER,
  trace_runtime_ns  INTEGER,
  input_bytes       INTEGER,
  declared_memory_bytes INTEGER,
  imputed_bits      INTEGER NOT NULL,
  imputed           TEXT AS (substr(iif(imputed_bits & 1, ',runtime', '') || iif(imputed_bits & 2, ',cores', '') ||
    iif(imputed_bits & 4, ',memory', '') || iif(imputed_bits & 8, ',avg-cpu', '') ||
    iif(imputed_bits & 64, ',command', '') || iif(imputed_bits & 256, ',disk', ''), 2)),
  need_millicores   INTEGER NOT NULL,
  need_memory_bytes INTEGER NOT NULL,
  need_disk_bps     INTEGER NOT NULL,
  time_limit_ns     INTEGER,
  image             TEXT,
  command           TEXT,
  identity          BLOB,
  PRIMARY KEY (run, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  run                       INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  attempt                   INTEGER NOT NULL,
  task                      INTEGER NOT NULL,
  try                       INTEGER NOT NULL,
  node                      INTEGER NOT NULL,
  hold_millicores           INTEGER NOT NULL,
  hold_memory_bytes         INTEGER NOT NULL,
  hold_disk_bps             INTEGER NOT NULL,
  planned_end_ns            INTEGER,
  estimate_ns               INTEGER,
  estimate_spread_ns        INTEGER,
  estimate_samples          INTEGER,
  estimate_source_code      INTEGER,
  estimate_source           TEXT AS (CASE estimate_source_code WHEN 1 THEN 'declared' WHEN 2 THEN 'history'
    WHEN 3 THEN 'trained' WHEN 4 THEN 'oracle' WHEN 5 THEN 'default' WHEN 6 THEN 'erroneous' WHEN 7 THEN 'corrected'
    WHEN 8 THEN 'learned' END),
  queued_ns                 INTEGER,
  staged_ns                 INTEGER,
  created_ns                INTEGER,
  started_ns                INTEGER,
  ended_ns                  INTEGER,
  ran_ns                    INTEGER,
  done                      REAL,
  before_ns                 INTEGER,
  kept                      REAL,
  lost_ns                   INTEGER,
  outcome                   TEXT,
  exit_code                 INTEGER,
  signal                    INTEGER,
  message                   TEXT,
  cpu_user_ns               INTEGER,
  cpu_system_ns             INTEGER,
  cpu_throttled_ns          INTEGER,
  peak_memory_bytes         INTEGER,
  read_bytes                INTEGER,
  written_bytes             INTEGER,
  read_ops                  INTEGER,
  write_ops                 INTEGER,
  input_bytes               INTEGER,
  copied_bytes              INTEGER,
  moved_bytes               INTEGER,
  oom_kills                 INTEGER,
  dropped_bytes             INTEGER,
  applied_cpu_millicores    INTEGER,
  applied_memory_bytes      INTEGER,
  applied_memory_swap_bytes INTEGER,
  applied_pids              INTEGER,
  applied_read_bps          INTEGER,
  applied_write_bps         INTEGER,
  applied_read_iops         INTEGER,
  applied_write_iops        INTEGER,
  gpus                      TEXT,
  gpu_ns                    INTEGER,
  peak_gpu_memory_bytes     INTEGER,
  PRIMARY KEY (run, attempt)
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

CREATE TABLE replicas (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  file    INTEGER NOT NULL,
  node    INTEGER NOT NULL,
  replica INTEGER NOT NULL,
  PRIMARY KEY (run, file, node)
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

CREATE TABLE reuses (
  run          INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  task         INTEGER NOT NULL,
  at_ns        INTEGER NOT NULL,
  from_run     TEXT,
  from_attempt INTEGER,
  ran_ns       INTEGER,
  reason       TEXT,
  PRIMARY KEY (run, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE contents (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  file       INTEGER NOT NULL,
  node       INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  mtime_ns   INTEGER NOT NULL,
  ctime_ns   INTEGER NOT NULL,
  inode      INTEGER NOT NULL,
  device     INTEGER NOT NULL,
  sha256     BLOB,
  removed    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, file)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE policies (
  run    INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq    INTEGER NOT NULL,
  at_ns  INTEGER NOT NULL,
  policy TEXT    NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  at_ns   INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  subject INTEGER,
  body    TEXT,
  PRIMARY KEY (run, seq)
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

CREATE TABLE predictions (
  run         INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  at_ns       INTEGER NOT NULL,
  scope       TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  basis       TEXT    NOT NULL,
  tasks       INTEGER NOT NULL,
  repetitions INTEGER NOT NULL,
  expected_ns INTEGER NOT NULL,
  low_ns      INTEGER NOT NULL,
  high_ns     INTEGER NOT NULL,
  PRIMARY KEY (run, at_ns, scope, name)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE submissions (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  position   INTEGER NOT NULL,
  at_ns      INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  definition BLOB    NOT NULL,
  PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE submitted (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  run           INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  key           TEXT    NOT NULL,
  position      INTEGER NOT NULL,
  uid           INTEGER NOT NULL,
  gid           INTEGER NOT NULL,
  pid           INTEGER NOT NULL,
  user          TEXT    NOT NULL,
  tenant        TEXT    NOT NULL,
  name          TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  accepted_wall TEXT    NOT NULL,
  accepted_ns   INTEGER NOT NULL,
  at_ns         INTEGER NOT NULL,
  state         TEXT    NOT NULL DEFAULT 'accepted',
  message       TEXT,
  workflow      INTEGER,
  task          INTEGER,
  options       TEXT,
  definition    BLOB,
  UNIQUE (key, position)
) STRICT;

CREATE TABLE hashes (
  device     INTEGER NOT NULL,
  inode      INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  mtime_ns   INTEGER NOT NULL,
  ctime_ns   INTEGER NOT NULL,
  sha256     BLOB    NOT NULL,
  hashed_ns  INTEGER NOT NULL,
  PRIMARY KEY (device, inode)
) STRICT, WITHOUT ROWID;

CREATE TABLE models (
  id           INTEGER PRIMARY KEY,
  name         TEXT    NOT NULL,
  version      INTEGER NOT NULL,
  method       TEXT    NOT NULL,
  created_wall TEXT    NOT NULL,
  gantry       TEXT    NOT NULL,
  runtime      TEXT    NOT NULL,
  time_scale   REAL    NOT NULL,
  size_scale   REAL    NOT NULL,
  runs         TEXT    NOT NULL,
  samples      INTEGER NOT NULL,
  features     TEXT    NOT NULL,
  held_out     TEXT    NOT NULL,
  scores       TEXT    NOT NULL,
  model        TEXT    NOT NULL,
  UNIQUE (name, version)
) STRICT;

CREATE TABLE host_models (
  id           INTEGER PRIMARY KEY,
  runtime      TEXT    NOT NULL,
  host         TEXT    NOT NULL,
  kernel       TEXT    NOT NULL,
  engine       TEXT    NOT NULL,
  cores        INTEGER NOT NULL,
  gantry       TEXT    NOT NULL,
  created_wall TEXT    NOT NULL,
  busy         REAL    NOT NULL,
  model        TEXT    NOT NULL
) STRICT;

-- SQLite has no statistics of the log: a query that needs one of these names it (INDEXED BY), or is such that no other fits.
CREATE INDEX tasks_by_name ON tasks(run, name);
CREATE INDEX tasks_by_identity ON tasks(identity) WHERE identity IS NOT NULL;
CREATE INDEX workflows_sized ON workflows(run, state, tasks) WHERE tasks >= 0;
CREATE INDEX tasks_not_done ON tasks(run, state) WHERE state <> 'done';
CREATE INDEX submitted_waiting ON submitted(run, at_ns) WHERE state = 'accepted';
CREATE INDEX submitted_by_workflow ON submitted(run, workflow, task);
CREATE INDEX submitted_by_user ON submitted(uid);
CREATE INDEX workflows_by_name ON workflows(run, name);
CREATE INDEX notes_by_workflow ON notes(run, workflow);
CREATE INDEX attempts_not_ok ON attempts(run, task) WHERE outcome <> 'ok';

-- But for this: without it SQLite reads all tasks of a run to find one by its name.
ANALYZE sqlite_master;
INSERT INTO sqlite_stat1 VALUES ('tasks', 'tasks_by_name', '1048576 10 1');

-- "gant"
PRAGMA application_id = 1734438516;
PRAGMA user_version = 1;
