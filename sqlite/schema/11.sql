-- Version 11: all that this release adds to the tables. Add statements above the last line. Views are in views.sql; columns of attempts for
-- new members of planner.Usage are made without a statement here.

-- What gantry calibrate measured of a host, with a runtime: the newest of a host and a runtime counts.
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
  refined_wall TEXT,
  refinements  INTEGER NOT NULL DEFAULT 0,
  model        TEXT    NOT NULL
) STRICT;

-- What simulations expected of runs: before they began, and when they were resumed.
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

PRAGMA user_version = 11;
