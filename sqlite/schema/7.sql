-- Version 7: bodies of version 4 in event_chunks, which leave out what follows from the rest.

PRAGMA user_version = 7;
