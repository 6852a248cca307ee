-- Version 9: extended by everything that this release adds to the log. Add statements above the last line.

PRAGMA user_version = 9;
