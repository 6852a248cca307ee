// A process with several threads cannot enter a user namespace, and the Go runtime has several. So it is entered by a
// constructor, before the Go runtime begins, when the environment asks for it.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "enter.h"

static int entered;

int gantry_in_userns(void) { return entered; }

static void fail(const char *what, int error) {
	fprintf(stderr, "gantry: user namespace: %s: %s (gantry doctor --runtime oci says what containers without root need)\n",
		what, strerror(error));
	_exit(HOST_NOT_USABLE);
}

// map has newuidmap or newgidmap map the IDs of a process. Words are the numbers of ranges.
static int map(const char *program, pid_t process, char *words) {
	char pid[24], *args[3 + 3 * MOST_RANGES] = {(char *)program, pid};
	int n = 2;
	snprintf(pid, sizeof pid, "%d", (int)process);
	for (char *w = strtok(words, " "); w; w = strtok(0, " ")) {
		if (n == 2 + 3 * MOST_RANGES)
			return 1;
		args[n++] = w;
	}
	pid_t child = fork();
	if (child == 0) {
		execvp(program, args);
		fprintf(stderr, "gantry: %s: %s\n", program, strerror(errno));
		_exit(1);
	}
	int status = 1;
	return child < 0 || waitpid(child, &status, 0) != child || status;
}

__attribute__((constructor)) static void enter(void) {
	char *uids = getenv(UIDS), *gids = getenv(GIDS);
	int ready[2], status = 0;
	pid_t self = getpid();
	if (!uids || !gids)
		return;
	if (pipe(ready))
		fail("pipe", errno);
	pid_t helper = fork(); // newuidmap has to run outside of the namespace
	if (helper < 0)
		fail("fork", errno);
	if (helper == 0) {
		char byte;
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			_exit(0);
		_exit(map("newuidmap", self, uids) || map("newgidmap", self, gids));
	}
	close(ready[0]);
	if (unshare(CLONE_NEWUSER))
		fail("unshare", errno);
	if (write(ready[1], "", 1) != 1)
		fail("pipe", errno);
	close(ready[1]);
	if (waitpid(helper, &status, 0) != helper || status)
		fail("newuidmap and newgidmap", EPERM);
	if (setresgid(0, 0, 0) || setresuid(0, 0, 0))
		fail("become its root", errno);
	prctl(PR_SET_DUMPABLE, 1); // or /proc/self belongs to nobody here
	unsetenv(UIDS);
	unsetenv(GIDS);
	entered = 1;
}
