-- Version 10: all that this release adds to the tables. Add statements above the last line. Views are in views.sql; columns of attempts for
-- new members of planner.Usage are made without a statement here.

ALTER TABLE workflows ADD COLUMN continues INTEGER;

-- What task results are known by: command, environment, names of files and all else that decides what a program writes, but for contents.
ALTER TABLE tasks ADD COLUMN identity BLOB;
CREATE INDEX tasks_by_identity ON tasks(identity) WHERE identity IS NOT NULL;

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

-- Images of containers: what each name stood for in the run.
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
ALTER TABLE tasks ADD COLUMN image TEXT;

-- Statistics of a log with small runs made SQLite read whole tables for each row of a large one. Every query finds its index without them.
ANALYZE runs;
DELETE FROM sqlite_stat1;

-- The most that the files of a run took on disk.
ALTER TABLE runs ADD COLUMN peak_disk_bytes INTEGER;

PRAGMA user_version = 10;
