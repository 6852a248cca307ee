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

PRAGMA user_version = 11;
