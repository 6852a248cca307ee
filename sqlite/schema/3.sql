-- Version 3: files from outside that lie on some nodes only, and what attempts read of them where it lay.

CREATE TABLE replicas (
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  file    INTEGER NOT NULL,
  node    INTEGER NOT NULL,
  replica INTEGER NOT NULL,
  PRIMARY KEY (run, file, node)
) STRICT, WITHOUT ROWID;

ALTER TABLE attempts ADD COLUMN input_bytes INTEGER;

PRAGMA user_version = 3;
