// The launcher in C: it runs before the Go runtime of gantry-task would start, and instead of it. Starting that costs
// more than all that the launcher does, once per task. See first.go.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/statfs.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __GLIBC__
#error "the launcher needs the GNU C library, which gives constructors the arguments of the program"
#endif

// Exit codes where the program cannot begin: those of shells.
enum { REDIRECT = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

static void say(const char *format, ...)
{
	char line[2 * PATH_MAX];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (n >= (int)sizeof line)
		n = sizeof line - 1;
	if (write(2, line, n) < 0)
		return;
}

// Why the program could not begin, for the account; 0: not known.
static int reason;

static int fail(const char *what, const char *path)
{
	reason = errno;
	say("gantry-task: %s: %s: %s\n", what, path, strerror(errno));
	return REDIRECT;
}

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// The control directory, and in it the launcher's account.
static int control = -1, account = -1;

// note adds a line to the account, in one piece, as package control reads it.
static void note(const char *what, long long n)
{
	char line[100];
	int size = snprintf(line, sizeof line, "%s %lld %lld\n", what, n, now());
	if (write(account, line, size) < 0)
		return; // the disk is full, and the kernel has the exit code
}

// whole reads a file of the control directory, and returns NULL if that fails; errno is ENOENT if there is none.
static char *whole(const char *name, size_t *size)
{
	int fd = openat(control, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	char *text = NULL;
	size_t room = 0;
	for (*size = 0;;) {
		if (room - *size < 2) {
			room = room ? 2 * room : 4096;
			char *more = realloc(text, room);
			if (!more)
				break;
			text = more;
		}
		ssize_t n = read(fd, text + *size, room - *size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		if (n == 0) {
			text[*size] = 0;
			close(fd);
			return text;
		}
		*size += n;
	}
	int why = errno;
	free(text);
	close(fd);
	errno = why;
	return NULL;
}

// places compares the directories of this container with those that were expected.
static int places(void)
{
	size_t size;
	char *text = whole("places", &size);
	if (!text)
		return errno == ENOENT ? 0 : fail("begin", "places");
	for (char *line = text; line < text + size; line += strlen(line) + 1) {
		unsigned long long device, inode;
		int at = 0;
		if (sscanf(line, "%llu %llu %n", &device, &inode, &at) != 2 || !at) {
			say("gantry-task: begin: expected directory: %s\n", line);
			return REDIRECT;
		}
		const char *path = line + at;
		struct stat st;
		if (lstat(path, &st))
			return fail("begin", path);
		if (st.st_dev != device || st.st_ino != inode) {
			say("gantry-task: begin: %s is another directory than when this attempt began: somebody moved it\n",
			    path);
			return REDIRECT;
		}
	}
	free(text);
	return 0;
}

// who is the user of a program, with its supplementary groups.
struct who {
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	size_t n;
};

// number reads an id, which ends with one of a few characters, and returns what comes after it; NULL if it is none.
static const char *number(const char *text, const char *ends, unsigned *id)
{
	char *end;
	errno = 0;
	unsigned long n = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || n >= UINT_MAX || !strchr(ends, *end)) // the last one is nobody's
		return NULL;
	*id = n;
	return end;
}

// user reads "UID:GID", or "UID:GID:GROUP,GROUP...". It returns 0, or an exit code.
static int user(const char *text, struct who *w)
{
	const char *at = number(text, ":", &w->uid);
	size_t most = 0;
	at = at && *at ? number(at + 1, ":", &w->gid) : NULL;
	for (const char *c = at; c && *c; c++)
		most += *c == ':' || *c == ',';
	if (most && !(w->groups = calloc(most, sizeof *w->groups)))
		return fail("begin", "groups");
	while (at && *at && w->n < most)
		at = number(at + 1, ",", &w->groups[w->n++]);
	if (at && !*at)
		return 0;
	say("gantry-task: begin: user \"%s\" is not UID:GID, or UID:GID:GROUPS\n", text);
	return REDIRECT;
}

// become gives up the rights of root for good. The program has the groups of its user, and none that the container
// engine gave the first process.
static int become(const struct who *w)
{
	if (getuid() == 0 && w->uid != 0) {
		static const int caps[] = {CAP_SETUID, CAP_SETGID, CAP_SETPCAP};
		for (int i = 0; i < 3; i++)
			if (prctl(PR_CAPBSET_DROP, caps[i], 0, 0, 0))
				return fail("begin", "drop a capability");
		if ((w->n || getgroups(0, NULL)) && setgroups(w->n, w->groups))
			return fail("begin", "take the groups of the user");
		if (setgid(w->gid))
			return fail("begin", "become the group");
		if (setuid(w->uid))
			return fail("begin", "become the user");
	}
	// The program is the same user from here on. It must not trace this process, nor open what it has open.
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return fail("begin", "not to be traced");
	return 0;
}

// enter claims the attempt in its control directory and becomes the user. It returns 0, or an exit code.
static int enter(const char *dir, const char *name)
{
	struct who w = {0};
	char claim[60];
	int code = user(name, &w);
	if (code)
		return code;
	control = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (control < 0)
		return fail("begin", dir);
	code = places();
	if (code)
		return code;
	account = openat(control, "end", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (account < 0)
		return fail("begin", "end");
	snprintf(claim, sizeof claim, "launcher %lld", now());
	if (symlinkat(claim, control, "claim")) {
		if (errno != EEXIST)
			return fail("begin", "claim");
		note("again", 0);
		say("gantry-task: this attempt was given up, or had begun before\n");
		return REDIRECT;
	}
	return become(&w);
}

// above makes the directories above a file.
static void above(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(path, 0755);
		*p = '/';
	}
}

static int redirect(char *name, int fd, int flags)
{
	if (flags & O_CREAT)
		above(name);
	int file = open(name, flags | O_CLOEXEC, 0644);
	if (file < 0)
		return fail("redirection", name);
	if (file != fd && dup2(file, fd) < 0)
		return fail("redirection", name);
	if (file != fd)
		close(file);
	else
		fcntl(fd, F_SETFD, 0);
	return 0;
}

// Standard error first: what goes wrong afterwards is written there. The same file for both is opened once.
static int redirections(char *in, char *out, char *err)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	int code = *err ? redirect(err, 2, flags) : 0;
	if (!code && *out && strcmp(out, err) == 0)
		code = dup2(2, 1) < 0 ? fail("redirection", out) : 0;
	else if (!code && *out)
		code = redirect(out, 1, flags);
	if (!code && *in)
		code = redirect(in, 0, O_RDONLY);
	return code;
}

// runnable reports whether a path is a program, and sets errno if not.
static int runnable(const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return 0;
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return 0;
	}
	return access(path, X_OK) == 0;
}

// find looks for a program as shells do. It returns NULL and an exit code if there is none.
static char *find(char *name, int *code)
{
	static char path[PATH_MAX];
	if (strchr(name, '/')) {
		if (runnable(name))
			return name;
		reason = errno;
		say("gantry-task: exec: \"%s\": %s\n", name, strerror(reason));
		*code = reason == EACCES ? NOT_EXECUTABLE : NOT_FOUND;
		return NULL;
	}
	const char *dir = getenv("PATH");
	while (*name && dir) {
		const char *end = strchrnul(dir, ':');
		int n = snprintf(path, sizeof path, "%.*s%s%s", (int)(end - dir), dir, end > dir ? "/" : "", name);
		if (n < (int)sizeof path && runnable(path))
			return path;
		dir = *end ? end + 1 : NULL;
	}
	say("gantry-task: exec: \"%s\": executable file not found in $PATH\n", name);
	*code = NOT_FOUND;
	return NULL;
}

// output takes what the program writes to standard output or error and keeps the beginning of it.
struct output {
	int fd; // 1 or 2; 0 if there is no bound
	int in; // this process reads here, what the program writes
	long long left, dropped;
};

static const char *const names[] = {"", "dropped-1", "dropped-2"};

// keep writes what the bound allows. A full disk ends that, too: the program is not to fail for what it says.
static void keep(struct output *o, const char *bytes, ssize_t n)
{
	ssize_t kept = n < o->left ? n : o->left, done = 0;
	while (done < kept) {
		ssize_t m = write(o->fd, bytes + done, kept - done);
		if (m < 0 && errno == EINTR)
			continue;
		if (m < 0) {
			o->left = done;
			break;
		}
		done += m;
	}
	o->left -= done;
	if (done < n && !o->dropped)
		note(names[o->fd], 0); // in case that this process is killed before it can count
	o->dropped += n - done;
}

static char buffer[64 << 10];

// take reads once, and closes the pipe when nobody can write any more.
static void take(struct output *o)
{
	ssize_t n = read(o->in, buffer, sizeof buffer);
	if (n > 0)
		keep(o, buffer, n);
	if (n == 0) {
		close(o->in);
		o->in = -1;
	}
}

// finish takes what the program has left in the pipe, and nothing that processes of its write from now on.
static void finish(struct output *o)
{
	int left = 0;
	if (!o->fd)
		return;
	if (o->in >= 0 && !ioctl(o->in, FIONREAD, &left))
		while (left > 0) {
			ssize_t n = read(o->in, buffer, left < (int)sizeof buffer ? left : (int)sizeof buffer);
			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				break;
			keep(o, buffer, n);
			left -= n;
		}
	if (o->dropped > 0)
		note(names[o->fd], o->dropped);
}

// ended reaps what has ended, and returns whether the program is among it.
static int ended(pid_t program, int *status)
{
	for (;;) {
		int s;
		pid_t pid = waitpid(-1, &s, WNOHANG);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			return 0;
		if (pid == program) {
			*status = s;
			return 1;
		}
	}
}

// full notes the size of the file system of a directory if nothing more can be written there.
static void full(const char *dir, const char *what)
{
	struct statfs s;
	if (!statfs(dir, &s) && s.f_blocks && s.f_bavail < 16)
		note(what, (long long)s.f_blocks * s.f_bsize);
}

// attend passes signals on, takes what the program says and reaps whatever loses its parent, until the program ends.
static int attend(pid_t program, int signals, struct output *outputs)
{
	int status;
	while (!ended(program, &status)) {
		struct pollfd p[3] = {{.fd = signals, .events = POLLIN}};
		for (int i = 0; i < 2; i++)
			p[i + 1] = (struct pollfd){.fd = outputs[i].fd ? outputs[i].in : -1, .events = POLLIN};
		if (poll(p, 3, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (p[i + 1].revents)
				take(&outputs[i]);
		struct signalfd_siginfo s;
		if (p[0].revents && read(signals, &s, sizeof s) == sizeof s && s.ssi_signo != SIGCHLD) {
			note("signal", s.ssi_signo);
			kill(program, s.ssi_signo); // it is not reaped yet
		}
	}
	finish(&outputs[0]);
	finish(&outputs[1]);
	if (status) {
		full("/tmp", "full-tmp");
		full("/dev/shm", "full-shm");
	}
	if (WIFSIGNALED(status)) {
		note("killed", WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	note("exit", WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

// begin starts the program of "STDIN STDOUT STDERR PROGRAM ARGUMENT...", and sees it to its end.
static int begin(char **args, long long most, int signals, const sigset_t *before, char **env)
{
	struct output outputs[2] = {{.in = -1}, {.in = -1}};
	int files[2] = {1, 2}, code = redirections(args[0], args[1], args[2]);
	char *program = code ? NULL : find(args[3], &code);
	for (int i = 0; program && i < 2; i++) {
		static const char *const bounded[] = {".command.out", ".command.err"}; // that no task declared
		int ends[2];
		if (strcmp(args[i + 1], bounded[0]) && strcmp(args[i + 1], bounded[1]))
			continue;
		if (pipe2(ends, O_CLOEXEC)) {
			code = fail("standard output", args[i + 1]);
			program = NULL;
			break;
		}
		outputs[i] = (struct output){.fd = i + 1, .in = ends[0], .left = most};
		files[i] = ends[1];
	}
	volatile int refused = 0;
	pid_t pid = program ? vfork() : -1;
	if (pid == 0) {
		for (int i = 0; i < 2; i++)
			if (files[i] != i + 1 && dup2(files[i], i + 1) < 0)
				refused = errno;
		if (!refused && !sigprocmask(SIG_SETMASK, before, NULL))
			execve(program, args + 3, env);
		refused = refused ? refused : errno;
		_exit(NOT_EXECUTABLE);
	}
	if (program && (pid < 0 || refused)) {
		reason = refused ? refused : errno;
		say("gantry-task: %s: fork/exec %s: %s%s\n", program, program, strerror(reason),
		    reason == ENOENT ? ": the interpreter of its first line, or its loader, is not there" : "");
		code = reason == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	}
	if (code) {
		if (reason)
			note("refused", reason);
		note("exit", code);
		return code;
	}
	for (int i = 0; i < 2; i++)
		if (outputs[i].fd)
			close(files[i]);
	return attend(pid, signals, outputs);
}

// launch does what "launch CONTROL UID:GID[:GROUPS] BOUND STDIN STDOUT STDERR PROGRAM ARGUMENT..." asks for.
static int launch(int n, char **args, char **env)
{
	long long most;
	char rest;
	if (n < 7 || sscanf(args[2], "%lld%c", &most, &rest) != 1) {
		say("usage: gantry-task launch CONTROL UID:GID[:GROUPS] BOUND STDIN STDOUT STDERR PROGRAM [ARGUMENT...]\n");
		return REDIRECT;
	}
	fcntl(3, F_SETFD, FD_CLOEXEC); // the network of the container lasts as long as this process holds it, if it has one
	// Before all else: the first process of a container does not hear of others. Blocked ones wait.
	static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT, SIGWINCH, SIGCHLD};
	sigset_t heard, before;
	sigemptyset(&heard);
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		sigaddset(&heard, passed[i]);
	sigprocmask(SIG_BLOCK, &heard, &before);
	int signals = signalfd(-1, &heard, SFD_CLOEXEC);
	if (signals < 0)
		return fail("begin", "signals");
	int code = enter(args[0], args[1]);
	if (code)
		return code;
	return begin(args + 3, most, signals, &before, env);
}

__attribute__((constructor)) static void first(int argc, char **argv, char **env)
{
	if (argc > 1 && strcmp(argv[1], "launch") == 0)
		_exit(launch(argc - 2, argv + 2, env));
}
