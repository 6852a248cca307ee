-- Means over the repetitions that were not cut off, as of when gantry experiment last ended or was interrupted.
CREATE TABLE IF NOT EXISTS intervals (
  cell    INTEGER NOT NULL REFERENCES cells(cell) ON DELETE CASCADE,
  metric  TEXT NOT NULL,
  runs    INTEGER NOT NULL,
  mean    REAL NOT NULL,
  half_95 REAL,                  -- mean ± half_95 is the 95 % confidence interval, by Student's t; NULL for one run
  PRIMARY KEY (cell, metric)
) STRICT, WITHOUT ROWID;

CREATE VIEW IF NOT EXISTS v_intervals AS
SELECT c.policy, c.errors, c.utilisation, c.params, i.metric, i.runs, i.mean, i.half_95
FROM cells c JOIN intervals i ON i.cell = c.cell WHERE c.wanted;

-- The build that simulated each run, and when the run ended.
CREATE TABLE IF NOT EXISTS builds (
  cell       INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  version    TEXT NOT NULL,
  ended_wall TEXT NOT NULL,
  PRIMARY KEY (cell, repetition),
  FOREIGN KEY (cell, repetition) REFERENCES runs(cell, repetition) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The repetitions that the experiment file asks for, of each cell.
CREATE TABLE IF NOT EXISTS asked (
  repetitions INTEGER NOT NULL
) STRICT;

-- Runs by earlier builds were taken over from the short form of results after a later build had repeated a sample of them, with the same digits.
CREATE TABLE IF NOT EXISTS checks (
  earlier TEXT NOT NULL,         -- builds, separated by commas
  version TEXT NOT NULL,         -- the build that repeated the sample
  runs    INTEGER NOT NULL,      -- in the sample
  PRIMARY KEY (earlier, version)
) STRICT, WITHOUT ROWID;
