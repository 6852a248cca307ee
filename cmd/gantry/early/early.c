//go:build linux

// The first moments of the process, before the Go runtime can take signals. Go forwards a signal that it has a handler
// for, but that nobody has asked for yet, to the handler that it found: this one.
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "early.h"

static int guards;

int gantry_guards(void) { return guards; }

// begins tells whether the command line has the command of a run. C libraries differ in what a constructor is given.
static int begins(void) {
	char text[4096];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	for (char *word = text + strlen(text) + 1; word < text + n; word += strlen(word) + 1)
		if (*word != '-')
			return !strcmp(word, "run") || !strcmp(word, "resume") || !strcmp(word, "serve") ||
				!strcmp(word, "experiment");
	return 0;
}

static void stop(int signal) {
	(void)signal;
	ssize_t ignored = write(STDERR_FILENO, STOPPED_TEXT, sizeof STOPPED_TEXT - 1);
	(void)ignored;
	_exit(STOPPED);
}

__attribute__((constructor)) static void guard(void) {
	const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = stop, .sa_flags = SA_ONSTACK | SA_RESTART}, before;
	guards = begins();
	for (unsigned i = 0; guards && i < sizeof ends / sizeof *ends; i++)
		if (!sigaction(ends[i], 0, &before) && before.sa_handler == SIG_DFL) // under nohup it is SIG_IGN
			sigaction(ends[i], &action, 0);
}
