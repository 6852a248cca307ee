-- Version 12: all that this release adds to the tables. Add statements above the last line. Views are in views.sql; columns of attempt_rows
-- for new members of planner.Usage are made without a statement here.

-- tasks, attempts and waits are views from here on: of these rows, and of the chunks that simulations write in their place.
ALTER TABLE tasks RENAME TO task_rows;
ALTER TABLE attempts RENAME TO attempt_rows;
ALTER TABLE waits RENAME TO wait_rows;

-- Tasks of one workflow, each with its only attempt: as columns what they share, as rows what they do not.
CREATE TABLE task_chunks (
  run                INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  task               INTEGER NOT NULL,
  last_task          INTEGER NOT NULL,
  workflow           INTEGER NOT NULL,
  tasks              INTEGER NOT NULL,
  need_millicores    INTEGER NOT NULL,
  need_memory_bytes  INTEGER NOT NULL,
  need_disk_bps      INTEGER NOT NULL,
  time_limit_ns      INTEGER,
  imputed            TEXT    NOT NULL,
  image              TEXT,
  state              TEXT    NOT NULL,
  try                INTEGER NOT NULL,
  hold_millicores    INTEGER NOT NULL,
  hold_memory_bytes  INTEGER NOT NULL,
  hold_disk_bps      INTEGER NOT NULL,
  estimate_spread_ns INTEGER,
  estimate_samples   INTEGER,
  estimate_source    TEXT,
  outcome            TEXT,
  exit_code          INTEGER,
  message            TEXT,
  lost_ns            INTEGER,
  rows               TEXT    NOT NULL,
  PRIMARY KEY (run, task)
) STRICT;

CREATE TABLE wait_chunks (
  run    INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq    INTEGER NOT NULL,
  reason TEXT    NOT NULL,
  dim    TEXT    NOT NULL,
  rows   TEXT    NOT NULL,
  PRIMARY KEY (run, seq, reason, dim)
) STRICT;

-- How many workflows and tasks a run has, by state of the tasks, so that a list of runs need not count them. NULL while it is under way.
ALTER TABLE runs ADD COLUMN counts TEXT;
UPDATE runs SET counts = (SELECT json_group_object(x.state, x.n) FROM (
    SELECT t.state, count(*) AS n FROM task_rows t WHERE t.run = runs.id GROUP BY t.state
    UNION ALL SELECT 'workflows', count(*) FROM workflows w WHERE w.run = runs.id AND w.state <> 'continued') x)
  WHERE state <> 'running';

-- Tasks of the run that gantry archive moved, by state. Logs of this format that began without the column get it when they are opened.
ALTER TABLE runs ADD COLUMN archived TEXT;

-- They count the tasks of a run that is under way: all that its workflows have, and those that are not done.
CREATE INDEX workflows_sized ON workflows(run, state, tasks) WHERE tasks >= 0;
CREATE INDEX tasks_not_done ON task_rows(run, state) WHERE state <> 'done';

-- What was handed in to a server, from the moment it is acknowledged on. Numbers are never used again.
CREATE TABLE submitted (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  run          INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  key          TEXT    NOT NULL,
  position     INTEGER NOT NULL,
  uid          INTEGER NOT NULL,
  gid          INTEGER NOT NULL,
  pid          INTEGER NOT NULL,
  user         TEXT    NOT NULL,
  tenant       TEXT    NOT NULL,
  name         TEXT    NOT NULL,
  kind         TEXT    NOT NULL,
  accepted_wall TEXT   NOT NULL,
  accepted_ns  INTEGER NOT NULL,
  at_ns        INTEGER NOT NULL,
  state        TEXT    NOT NULL DEFAULT 'accepted',
  message      TEXT,
  workflow     INTEGER,
  task         INTEGER,
  options      TEXT,
  definition   BLOB,
  UNIQUE (key, position)
) STRICT;
CREATE INDEX submitted_waiting ON submitted(run, at_ns) WHERE state = 'accepted';
CREATE INDEX submitted_by_workflow ON submitted(run, workflow, task);

-- Tasks that were added to workflows after these had arrived.
CREATE TABLE growths (
  run        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  workflow   INTEGER NOT NULL,
  first_task INTEGER NOT NULL,
  tasks      INTEGER NOT NULL,
  definition BLOB NOT NULL,
  PRIMARY KEY (run, workflow, first_task)
) STRICT;

-- Changes of the policy of a run under way. Before the first one it is that of its settings.
CREATE TABLE policies (
  run    INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  seq    INTEGER NOT NULL,
  at_ns  INTEGER NOT NULL,
  policy TEXT    NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 12;
