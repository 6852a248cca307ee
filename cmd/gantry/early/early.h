// The exit code and the message of a gantry that a signal ends before anything was started.
#define STOPPED 130
#define STOPPED_TEXT "gantry: stopped before anything was started\n"

// gantry_guards tells whether signals end this process with STOPPED: its command is run, resume or serve.
int gantry_guards(void);
