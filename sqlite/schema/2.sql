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

PRAGMA user_version = 2;
