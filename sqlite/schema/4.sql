-- Version 4: models of runtimes and memory, and the sizes of inputs that they are trained on.

ALTER TABLE tasks ADD COLUMN input_bytes INTEGER;

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
  seed         INTEGER NOT NULL,
  runs         TEXT    NOT NULL,
  samples      INTEGER NOT NULL,
  features     TEXT    NOT NULL,
  held_out     TEXT    NOT NULL,
  scores       TEXT    NOT NULL,
  model        TEXT    NOT NULL,
  UNIQUE (name, version)
) STRICT;

PRAGMA user_version = 4;
