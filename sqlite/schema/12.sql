-- Version 12: all that this release adds to the tables. Add statements above the last line. Views are in views.sql; columns of attempts for
-- new members of planner.Usage are made without a statement here.

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

PRAGMA user_version = 12;
