-- Results of gantry experiment. Times are in nanoseconds unless a name says otherwise; metrics are in seconds where they are times.
CREATE TABLE experiment (
  name        TEXT NOT NULL,
  title       TEXT NOT NULL,
  source      TEXT NOT NULL,     -- path of the experiment file
  settings    TEXT NOT NULL,     -- JSON: what results must share to stand in one file
  version     TEXT NOT NULL,     -- of gantry
  started_wall TEXT NOT NULL
) STRICT;

CREATE TABLE cells (
  cell   INTEGER PRIMARY KEY,    -- a combination of parameters
  key    TEXT NOT NULL UNIQUE,   -- JSON: all parameters, and a digest of the workload and cluster files
  params TEXT NOT NULL,          -- JSON object of the parameters
  wanted INTEGER NOT NULL,       -- 1: the experiment file has it; 0: it was kept of an earlier state of the file
  policy    TEXT GENERATED ALWAYS AS (params ->> '$.policy') VIRTUAL,
  errors    TEXT GENERATED ALWAYS AS (params ->> '$.errors') VIRTUAL,
  estimator TEXT GENERATED ALWAYS AS (params ->> '$.estimator') VIRTUAL,
  cluster   TEXT GENERATED ALWAYS AS (params ->> '$.cluster') VIRTUAL,
  workload  TEXT GENERATED ALWAYS AS (params ->> '$.workload') VIRTUAL,
  utilisation REAL GENERATED ALWAYS AS (CAST(params ->> '$.utilisation' AS REAL)) VIRTUAL
) STRICT;

CREATE TABLE runs (
  cell       INTEGER NOT NULL REFERENCES cells(cell) ON DELETE CASCADE,
  repetition INTEGER NOT NULL,   -- from 0
  state      TEXT NOT NULL,      -- done; diverged: cut off; failed: could not be run
  message    TEXT NOT NULL,
  took_ns    INTEGER NOT NULL,   -- by the wall clock
  PRIMARY KEY (cell, repetition)
) STRICT, WITHOUT ROWID;

CREATE TABLE metrics (
  cell       INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  metric     TEXT NOT NULL,
  value      REAL,               -- NULL: the metric has no value in this run
  PRIMARY KEY (cell, repetition, metric),
  FOREIGN KEY (cell, repetition) REFERENCES runs(cell, repetition) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
  cell       INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  workflow   INTEGER NOT NULL,   -- by arrival, from 0; warm-up and cool-down are left out
  label      TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  tasks      INTEGER NOT NULL,
  arrived_ns INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns   INTEGER NOT NULL,
  work_ns    INTEGER NOT NULL,   -- sum of the true runtimes at speed 1
  critical_path_ns INTEGER NOT NULL,
  lowest_ns  INTEGER NOT NULL,   -- critical path by the lowest runtime of each task
  PRIMARY KEY (cell, repetition, workflow),
  FOREIGN KEY (cell, repetition) REFERENCES runs(cell, repetition) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
  cell       INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  at_ns      INTEGER NOT NULL,
  in_system  INTEGER NOT NULL,
  PRIMARY KEY (cell, repetition, at_ns),
  FOREIGN KEY (cell, repetition) REFERENCES runs(cell, repetition) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE searches (
  params    TEXT NOT NULL PRIMARY KEY, -- JSON object of the parameters
  parameter TEXT NOT NULL,       -- what was searched
  value     TEXT                 -- the largest value at which the system is stable; NULL: it is at none
) STRICT, WITHOUT ROWID;

CREATE VIEW v_metrics AS
SELECT c.policy, c.errors, c.utilisation, c.params, m.metric, count(m.value) AS runs, avg(m.value) AS mean, min(m.value) AS least, max(m.value) AS most
FROM cells c JOIN metrics m ON m.cell = c.cell WHERE c.wanted GROUP BY c.cell, m.metric;

CREATE VIEW v_workflows AS
SELECT c.policy, c.errors, c.utilisation, c.params, w.repetition, w.workflow, w.label, w.tenant, w.tasks,
  (w.started_ns - w.arrived_ns) / 1e9 AS wait_s, (w.ended_ns - w.started_ns) / 1e9 AS makespan_s, (w.ended_ns - w.arrived_ns) / 1e9 AS response_s,
  1.0 * (w.ended_ns - w.arrived_ns) / nullif(w.critical_path_ns, 0) AS slowdown, w.work_ns / 1e9 AS work_s
FROM cells c JOIN workflows w ON w.cell = c.cell WHERE c.wanted;

-- Means over the repetitions that were not cut off, as of when gantry experiment last ended or was interrupted.
CREATE TABLE intervals (
  cell    INTEGER NOT NULL REFERENCES cells(cell) ON DELETE CASCADE,
  metric  TEXT NOT NULL,
  runs    INTEGER NOT NULL,
  mean    REAL NOT NULL,
  half_95 REAL,                  -- mean ± half_95 is the 95 % confidence interval, by Student's t; NULL for one run
  PRIMARY KEY (cell, metric)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_intervals AS
SELECT c.policy, c.errors, c.utilisation, c.params, i.metric, i.runs, i.mean, i.half_95
FROM cells c JOIN intervals i ON i.cell = c.cell WHERE c.wanted;

-- The build that simulated each run, and when the run ended.
CREATE TABLE builds (
  cell       INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  version    TEXT NOT NULL,
  ended_wall TEXT NOT NULL,
  PRIMARY KEY (cell, repetition),
  FOREIGN KEY (cell, repetition) REFERENCES runs(cell, repetition) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- The repetitions that the experiment file asks for, of each cell.
CREATE TABLE asked (
  repetitions INTEGER NOT NULL
) STRICT;
