-- Version 12: all that this release adds to the tables. Add statements above the last line. Views are in views.sql; columns of attempts for
-- new members of planner.Usage are made without a statement here.

PRAGMA user_version = 12;
