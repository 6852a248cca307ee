-- Version 8: v_utilisation takes one pass over the attempts of a run.

PRAGMA user_version = 8;
