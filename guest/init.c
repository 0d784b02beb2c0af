// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of the lab's small guest: runs one command in the host's files, transfers its input and output, and reports its
 * exit code.
 *
 * The host puts this program and /terrace.conf (strings "key=value", each ended by a NUL) into the initramfs and
 * connects virtio-serial ports: terrace.in, terrace.out, terrace.err carry the command's own bytes, terrace.files (with
 * an "out=" in the configuration) the files that it leaves in OUT_DIR, after its end (init_out.c), terrace.ctl carries
 * lines:
 *
 *   guest -> host   boot                     the machine is up, the command is about to start
 *                   beat                     still alive, once every "beat" milliseconds
 *                   exit CODE OUT ERR        the command ended; OUT and ERR bytes were written to the two ports
 *                   signal NUMBER OUT ERR    the same, ended by a signal
 *                   fail TEXT                the machine could not be set up as requested
 *   host -> guest   signal NUMBER            send it to the command's process group
 *                   eof COUNT                COUNT bytes were put into terrace.in and no more will come
 *                   collect                  kill the command, then send its files
 *                   winsize ROWS COLUMNS     the terminal changed (only with a "tty=" in the configuration)
 *                   off                      all is received, power off
 *
 * Keys of the configuration: arg (one per word), env (one per variable), cwd, root (ro or overlay), scratch (size of
 * the writable tmpfs), sysctl (name=value), tty (ROWSxCOLUMNS: run in a pseudo terminal), beat (ms), hostname, out
 * (size of OUT_DIR in bytes).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

#define ORPHAN_GRACE_MS 1000	/* how long others may keep the command's output open after it ended */
#define OFF_WAIT_MS 20000	/* how long to wait for the host's "off" */

struct conf conf = { .cwd = "/", .root = "ro", .scratch = "50%", .hostname = "terrace", .beat_ms = 1000 };

static int ctl_port = -1, in_port = -1, out_port = -1, err_port = -1, files_port = -1;

/* Bytes on their way from one descriptor to another. */
struct pump {
	int from, to;
	bool ended;		/* nothing more comes from `from` */
	bool broken;		/* the host has closed `to`: drop output */
	unsigned long long moved, limit;
	size_t head, tail;
	char buf[65536];
};

static struct pump pump_in = { .limit = ~0ULL }, pump_out = { .limit = ~0ULL }, pump_err = { .limit = ~0ULL };

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* One line to the host. Lines are short and the port is blocking, so a line arrives whole. */
__attribute__((format(printf, 1, 2))) static void tell(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	for (int done = 0; done < len;) {
		ssize_t n = write(ctl_port, line + done, len - done);

		if (n < 0 && errno != EINTR)
			return;
		if (n > 0)
			done += n;
	}
}

static void power_off(void)
{
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void wait_for_off(void);

/* The machine is not as requested: report that on both outputs, then end. */
void fail(const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "terrace init: %s\n", text);
	if (ctl_port >= 0) {
		tell("fail %s", text);
		wait_for_off();
	}
	power_off();
	__builtin_unreachable();
}

/* ---- configuration ---- */

static void take_setting(char *record)
{
	char *value = strchr(record, '=');

	if (!value)
		fail("configuration: '%s' has no '='", record);
	*value++ = '\0';
	if (!strcmp(record, "arg"))
		conf.arg[conf.args++] = value;
	else if (!strcmp(record, "env"))
		conf.env[conf.envs++] = value;
	else if (!strcmp(record, "sysctl") && conf.sysctls < MAX_SYSCTLS)
		conf.sysctl[conf.sysctls++] = value;
	else if (!strcmp(record, "cwd"))
		conf.cwd = value;
	else if (!strcmp(record, "root"))
		conf.root = value;
	else if (!strcmp(record, "scratch"))
		conf.scratch = value;
	else if (!strcmp(record, "tty"))
		conf.tty = value;
	else if (!strcmp(record, "hostname"))
		conf.hostname = value;
	else if (!strcmp(record, "out"))
		conf.out = value;
	else if (!strcmp(record, "beat"))
		conf.beat_ms = atol(value);
	else
		fail("configuration: unknown key '%s' or too many of it", record);
}

static char *read_whole(const char *path, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text;

	if (fd < 0 || fstat(fd, &st))
		fail("%s: %s", path, strerror(errno));
	text = calloc(1, st.st_size + 1);
	if (!text)
		fail("%s: no memory", path);
	for (*len = 0; *len < (size_t)st.st_size;) {
		ssize_t n = read(fd, text + *len, st.st_size - *len);

		if (n <= 0)
			fail("%s: short read", path);
		*len += n;
	}
	close(fd);
	return text;
}

static void read_configuration(void)
{
	size_t len, records = 0;
	char *text = read_whole("/terrace.conf", &len), *next;

	for (size_t i = 0; i < len; i++)
		records += !text[i];
	conf.arg = calloc(records + 1, sizeof(char *));
	conf.env = calloc(records + 1, sizeof(char *));
	if (!conf.arg || !conf.env)
		fail("configuration: no memory");
	for (char *record = text; record < text + len; record = next) {
		next = record + strlen(record) + 1;
		take_setting(record);
	}
	if (!conf.args)
		fail("configuration: no command");
}

/* ---- ports ---- */

static int find_port(const char *name)
{
	for (int n = 0; n < 16; n++) {
		char path[96], found[64] = "";
		int fd;
		ssize_t len;

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/vport0p%d/name", n);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		len = read(fd, found, sizeof(found) - 1);
		close(fd);
		if (len <= 0)
			continue;
		found[strcspn(found, "\n")] = '\0';
		if (strcmp(found, name))
			continue;
		snprintf(path, sizeof(path), "/dev/vport0p%d", n);
		return open(path, O_RDWR | O_CLOEXEC);
	}
	return -1;
}

/* The ports are announced one by one after boot; a port whose host side is not connected yet would read as ended. */
static int open_port(const char *name)
{
	long long limit = now_ms() + 10000;
	int fd = -1;

	while (now_ms() < limit) {
		if (fd < 0)
			fd = find_port(name);
		if (fd >= 0) {
			struct pollfd p = { .fd = fd, .events = POLLIN };

			if (poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP))
				return fd;
		}
		usleep(2000);
	}
	fail("virtio port '%s' did not appear within 10 s", name);
}

/* ---- the machine ---- */

static void write_sysctl(char *setting)
{
	char path[256], *value = strchr(setting, '=');
	int fd;

	if (!value)
		fail("sysctl '%s' has no '='", setting);
	*value++ = '\0';
	snprintf(path, sizeof(path), "/proc/sys/%s", setting);
	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		if (*p == '.')
			*p = '/';
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail("sysctl %s=%s: %s", setting, value, strerror(errno));
	close(fd);
}

static void loopback_up(void)
{
	struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &req);
	close(fd);
}

/* ---- the command ---- */

static void redirect(int fd, int to)
{
	if (fd == to)
		fcntl(fd, F_SETFD, 0);
	else
		dup2(fd, to);
}

__attribute__((noreturn)) static void become_command(int in, int out, int err)
{
	sigset_t none;
	int code;

	setsid();
	redirect(in, 0);
	redirect(out, 1);
	redirect(err, 2);
	if (conf.tty)
		ioctl(0, TIOCSCTTY, 0);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(conf.cwd)) {
		fprintf(stderr, "terrace: cannot enter '%s' in the guest: %s\n", conf.cwd, strerror(errno));
		_exit(126);
	}
	environ = conf.env;
	execvp(conf.arg[0], conf.arg);
	code = errno == ENOENT ? 127 : 126;
	fprintf(stderr, "terrace: cannot run '%s' in the guest: %s\n", conf.arg[0], strerror(errno));
	_exit(code);
}

static int open_terminal(void)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0 || grantpt(master) || unlockpt(master))
		fail("pseudo terminal: %s", strerror(errno));
	sscanf(conf.tty, "%hux%hu", &size.ws_row, &size.ws_col);
	ioctl(master, TIOCSWINSZ, &size);
	return master;
}

static pid_t start_command(void)
{
	int in[2], out[2], err[2];
	pid_t pid;

	if (conf.tty) {
		int master = open_terminal(), slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

		if (slave < 0)
			fail("pseudo terminal: %s", strerror(errno));
		in[1] = dup(master);
		out[0] = master;
		in[0] = out[1] = err[1] = slave;
		err[0] = -1;
	} else if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
		fail("pipe: %s", strerror(errno));
	}
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid)
		become_command(in[0], out[1], err[1]);
	close(in[0]);
	close(out[1]);
	if (!conf.tty)
		close(err[1]);
	pump_in.from = in_port;
	pump_in.to = in[1];
	pump_out.from = out[0];
	pump_out.to = out_port;
	pump_err.from = err[0];
	pump_err.to = err_port;
	pump_err.ended = conf.tty;
	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? in[1] : i == 1 ? out[0] : err[0];

		if (fd >= 0)
			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	}
	fcntl(in_port, F_SETFL, O_RDWR | O_NONBLOCK);
	fcntl(out_port, F_SETFL, O_RDWR | O_NONBLOCK);
	fcntl(err_port, F_SETFL, O_RDWR | O_NONBLOCK);
	return pid;
}

/* ---- moving bytes ---- */

static short pump_wants_read(const struct pump *p)
{
	return !p->ended && p->head == p->tail ? POLLIN : 0;
}

static short pump_wants_write(const struct pump *p)
{
	return p->head != p->tail && !p->broken ? POLLOUT : 0;
}

static void pump_read(struct pump *p)
{
	ssize_t n = read(p->from, p->buf, sizeof(p->buf));

	if (n > 0) {
		p->head = 0;
		p->tail = n;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		p->ended = true;
	}
}

static void pump_write(struct pump *p)
{
	ssize_t n = p->broken ? (ssize_t)(p->tail - p->head) : write(p->to, p->buf + p->head, p->tail - p->head);

	if (n > 0) {
		p->head += n;
		p->moved += n;
	} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
		p->broken = true;
	}
}

/* Move what can be moved now. Both descriptors are non-blocking. */
static void pump_move(struct pump *p)
{
	if (pump_wants_read(p))
		pump_read(p);
	if (p->head != p->tail)
		pump_write(p);
	if (p->broken)
		p->head = p->tail = 0;
}

/* The command's input ends when every byte that the host announced has been passed on. */
static void pump_end_input(struct pump *p)
{
	if (p->to < 0 || p->head != p->tail)
		return;
	if (p->moved < p->limit && !p->broken)
		return;
	p->ended = true;
	if (!conf.tty) {
		close(p->to);
		p->to = -1;
	}
}

/* ---- control ---- */

static bool off_asked;

static void obey(char *line, pid_t command)
{
	unsigned long long count;
	struct winsize size = { 0 };
	int number;

	if (sscanf(line, "signal %d", &number) == 1) {
		if (command > 0)
			kill(-command, number);
	} else if (sscanf(line, "eof %llu", &count) == 1) {
		pump_in.limit = count;
	} else if (sscanf(line, "winsize %hu %hu", &size.ws_row, &size.ws_col) == 2) {
		if (conf.tty)
			ioctl(pump_out.from, TIOCSWINSZ, &size);
	} else if (!strcmp(line, "collect")) {
		if (command > 0)
			kill(-1, SIGKILL);
	} else if (!strcmp(line, "off")) {
		off_asked = true;
	}
}

static void read_control(pid_t command)
{
	static char line[256];
	static size_t len;
	char chunk[256];
	ssize_t n = read(ctl_port, chunk, sizeof(chunk));

	for (ssize_t i = 0; i < n; i++) {
		if (chunk[i] != '\n') {
			if (len < sizeof(line) - 1)
				line[len++] = chunk[i];
			continue;
		}
		line[len] = '\0';
		len = 0;
		obey(line, command);
	}
}

static void wait_for_off(void)
{
	long long limit = now_ms() + OFF_WAIT_MS;

	while (!off_asked && now_ms() < limit) {
		struct pollfd p = { .fd = ctl_port, .events = POLLIN };

		if (poll(&p, 1, 100) > 0)
			read_control(0);
	}
}

/* ---- the main loop ---- */

struct state {
	pid_t command;
	bool over;		/* the command itself has ended */
	int status;
	long long over_ms, beat_ms;
	int signals;
};

static void reap(struct state *s)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(s->signals, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != s->command || s->over)
			continue;
		s->over = true;
		s->status = status;
		s->over_ms = now_ms();
	}
}

/* After the command ended: is there output left, or somebody who may still write some? */
static bool drained(const struct state *s)
{
	bool empty = pump_out.head == pump_out.tail && pump_err.head == pump_err.tail;

	if (!s->over || !empty)
		return false;
	return (pump_out.ended && pump_err.ended) || now_ms() - s->over_ms > ORPHAN_GRACE_MS;
}

static void beat(struct state *s)
{
	if (now_ms() - s->beat_ms < conf.beat_ms)
		return;
	s->beat_ms = now_ms();
	tell("beat");
}

static void wait_for_event(struct state *s)
{
	struct pollfd fds[8];
	struct pump *pumps[] = { &pump_in, &pump_out, &pump_err };
	long long wait = s->beat_ms + conf.beat_ms - now_ms();
	int n = 2;

	fds[0] = (struct pollfd){ .fd = s->signals, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = ctl_port, .events = POLLIN };
	for (int i = 0; i < 3; i++) {
		short r = pump_wants_read(pumps[i]), w = pump_wants_write(pumps[i]);

		if (pumps[i] == &pump_in && pumps[i]->to < 0)
			continue;
		if (r)
			fds[n++] = (struct pollfd){ .fd = pumps[i]->from, .events = r };
		if (w)
			fds[n++] = (struct pollfd){ .fd = pumps[i]->to, .events = w };
	}
	if (s->over && wait > 50)
		wait = 50;
	if (poll(fds, n, wait < 0 ? 0 : (int)wait) <= 0)
		return;
	if (fds[0].revents)
		reap(s);
	if (fds[1].revents & POLLIN)
		read_control(s->over ? 0 : s->command);
}

static void serve(struct state *s)
{
	while (!drained(s)) {
		wait_for_event(s);
		if (pump_in.to >= 0) {
			pump_move(&pump_in);
			pump_end_input(&pump_in);
		}
		pump_move(&pump_out);
		pump_move(&pump_err);
		beat(s);
	}
}

static void prepare_machine(void)
{
	make_dir("/proc");
	make_dir("/sys");
	make_dir("/dev");
	must_mount("proc", "/proc", "proc", 0, NULL);
	must_mount("sysfs", "/sys", "sysfs", 0, NULL);
	must_mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	ctl_port = open_port("terrace.ctl");
	in_port = open_port("terrace.in");
	out_port = open_port("terrace.out");
	err_port = open_port("terrace.err");
	read_configuration();
	if (conf.out)
		files_port = open_port("terrace.files");
	enter_host_files();
	sethostname(conf.hostname, strlen(conf.hostname));
	loopback_up();
	for (int i = 0; i < conf.sysctls; i++)
		write_sysctl(conf.sysctl[i]);
}

/* Nothing else runs when the files are read, so they stay as they are. */
static void hand_back_files(void)
{
	struct sched_param param = { 0 };

	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	sched_setscheduler(0, SCHED_OTHER, &param);
	send_files(files_port);
}

/* A command that takes every CPU and all memory must not silence the heartbeat. */
static void stay_alive(void)
{
	struct sched_param param = { .sched_priority = 98 };

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
	mlockall(MCL_CURRENT | MCL_FUTURE);
}

int main(void)
{
	struct state s = { 0 };
	sigset_t child;

	umask(022);
	signal(SIGPIPE, SIG_IGN);
	prepare_machine();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	s.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	stay_alive();
	tell("boot");
	s.command = start_command();
	s.beat_ms = now_ms();
	serve(&s);
	if (WIFSIGNALED(s.status))
		tell("signal %d %llu %llu", WTERMSIG(s.status), pump_out.moved, pump_err.moved);
	else
		tell("exit %d %llu %llu", WEXITSTATUS(s.status), pump_out.moved, pump_err.moved);
	if (conf.out)
		hand_back_files();
	wait_for_off();
	power_off();
}
