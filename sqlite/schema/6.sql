-- Version 6: preemptions, what checkpoints keep, and what is lost.

ALTER TABLE attempts ADD COLUMN done REAL;
ALTER TABLE attempts ADD COLUMN before_ns INTEGER;
ALTER TABLE attempts ADD COLUMN kept REAL;
ALTER TABLE attempts ADD COLUMN lost_ns INTEGER;
ALTER TABLE attempts ADD COLUMN moved_bytes INTEGER;

UPDATE attempts SET lost_ns = iif(outcome = 'ok', 0, coalesce(ran_ns, 0)) WHERE outcome IS NOT NULL;

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

PRAGMA user_version = 6;
