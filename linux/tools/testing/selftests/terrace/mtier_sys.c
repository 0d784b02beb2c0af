// SPDX-License-Identifier: GPL-2.0
/*
 * Selftest helpers: trace events, cgroup v2, races, child processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtier_util.h"

#define TRACING	"/sys/kernel/tracing/instances/"
#define CGROUPS	"/sys/fs/cgroup/"

/* ---- trace events ---- */

/* Trace one event of @system, or all with NULL.  Returns 0 or -errno. */
int mt_trace_open_of(struct mt_trace *t, const char *system, const char *event)
{
	char path[256];
	int ret;

	t->len = 0;
	snprintf(t->dir, sizeof(t->dir), TRACING "mtier%d", getpid());
	if (mkdir(t->dir, 0700) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/events/%s/%s%senable", t->dir, system,
		 event ?: "", event ? "/" : "");
	ret = mt_write(path, "1");
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/trace_pipe", t->dir);
	t->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return t->fd < 0 ? -errno : 0;
}

int mt_trace_open(struct mt_trace *t, const char *event)
{
	return mt_trace_open_of(t, "mtier", event);
}

/* Get the next line, if there is one. */
bool mt_trace_line(struct mt_trace *t, char *line, size_t size)
{
	char *end = memchr(t->buf, '\n', t->len);
	ssize_t n;
	size_t len;

	if (!end) {
		n = read(t->fd, t->buf + t->len, sizeof(t->buf) - t->len);
		if (n > 0)
			t->len += n;
		end = memchr(t->buf, '\n', t->len);
	}
	if (!end)
		return false;
	len = end - t->buf;
	snprintf(line, size, "%.*s", (int)len, t->buf);
	t->len -= len + 1;
	memmove(t->buf, end + 1, t->len);
	return true;
}

void mt_trace_close(struct mt_trace *t)
{
	close(t->fd);
	rmdir(t->dir);
}

/* Get the time of the event of a line, in s; after CPU and flags: "[000] d..1. 12.5: " */
double mt_when(const char *line)
{
	const char *at = strchr(line, ']');

	at = at ? at + 1 : line;
	at += strspn(at, " ");
	at += strcspn(at, " ");
	return strtod(at, NULL);
}

static const char *field(const char *line, const char *name)
{
	size_t len = strlen(name);
	const char *at = line;

	while ((at = strstr(at, name))) {
		if (at > line && at[-1] == ' ' && at[len] == '=')
			return at + len + 1;
		at += len;
	}
	return NULL;
}

/* A number in "name=value" form, -1 if it is not there. */
long long mt_field(const char *line, const char *name)
{
	const char *at = field(line, name);

	return at ? strtoll(at, NULL, 0) : -1;
}

bool mt_field_is(const char *line, const char *name, const char *text)
{
	const char *at = field(line, name);
	size_t len = strlen(text);

	return at && !strncmp(at, text, len) && (!at[len] || at[len] == ' ');
}

/* ---- cgroups ---- */

/* Create one, with @controllers ("+memory +cpuset") enabled for it. */
int mt_cgroup_make(struct mt_cgroup *cg, const char *name,
		   const char *controllers)
{
	int ret = mt_write(CGROUPS "cgroup.subtree_control", controllers);

	if (ret)
		return ret;
	snprintf(cg->dir, sizeof(cg->dir), CGROUPS "%s%d", name, getpid());
	return mkdir(cg->dir, 0700) && errno != EEXIST ? -errno : 0;
}

int mt_cgroup_write(const struct mt_cgroup *cg, const char *file,
		    const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cg->dir, file);
	return mt_write(path, text);
}

/* Move a process, 0 for the caller. */
int mt_cgroup_enter(const struct mt_cgroup *cg, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return mt_cgroup_write(cg, "cgroup.procs", text);
}

long long mt_cgroup_stat(const struct mt_cgroup *cg, const char *file,
			 const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cg->dir, file);
	return name ? mt_file_stat(path, name) : mt_read_ll(path);
}

/*
 * Check that all counters with prefix @prefix agree in the root cgroup's memory.stat and
 * in /proc/vmstat. The former are summed up every two seconds.
 */
static bool same_counters(const char *prefix, bool tell)
{
	FILE *f = fopen("/sys/fs/cgroup/memory.stat", "re");
	char name[64];
	long long value;
	int seen = 0, differ = 0;

	while (f && fscanf(f, "%63s %lld", name, &value) == 2) {
		if (strncmp(name, prefix, strlen(prefix)))
			continue;
		seen++;
		if (value == mt_count(name))
			continue;
		differ++;
		if (tell)
			mt_note("%s: %lld in memory.stat, %lld in vmstat", name,
				value, mt_count(name));
	}
	if (f)
		fclose(f);
	return seen && !differ;
}

bool mt_memcg_same(const char *prefix)
{
	return MT_WAIT(same_counters(prefix, false), 10000) ||
	       same_counters(prefix, true);
}

/* Move the caller back and remove the folder. */
void mt_cgroup_remove(struct mt_cgroup *cg)
{
	mt_write(CGROUPS "cgroup.procs", "0");
	(void)MT_WAIT(!rmdir(cg->dir) || errno != EBUSY, 2000);
}

/* ---- processes ---- */

/* Longest time until the first page has moved on a slow host. */
#define RACE_MAX_MS	MT_MOVE_MS

/* Least interval of requested bursts, while a test waits for their effect. */
#define HURRY_MS	1000

/*
 * Called while waiting for bursts. On a slow host, or a debug kernel, scans without a
 * result are so expensive that the next ones run half a minute later.
 */
void mt_hurry(void)
{
	static long long last_ms;
	long long now_ms = mt_now_ms();

	if (now_ms - last_ms < HURRY_MS)
		return;
	if (last_ms)
		mt_write(MT_BURST_DIR "burst", "1");
	last_ms = now_ms;
}

/* Scan and migrate at full speed. */
void mt_race_begin(struct mt_race *r)
{
	mt_fast();
	mt_snap(&r->before);
	r->start_ms = mt_now_ms();
	mt_on();
}

/*
 * Off and on: the first bursts run soon, with a short scan interval, so that they find
 * short-lived memory.
 */
void mt_race_again(void)
{
	mt_off();
	mt_on();
}

/* For @least_ms, and on a slow host until there was something to race with. */
bool mt_race_goes_on(const struct mt_race *r, unsigned int least_ms)
{
	long long ran_ms = mt_now_ms() - r->start_ms;

	mt_hurry();
	return ran_ms < least_ms ||
	       (ran_ms < RACE_MAX_MS &&
		!mt_since(&r->before, "pgpromote_success"));
}

/* Wait until pages move. */
int mt_race_moved(const struct mt_race *r)
{
	MT_ASSERT(MT_WAIT(!mt_race_goes_on(r, 0), RACE_MAX_MS) &&
		  mt_since(&r->before, "pgpromote_success") > 0,
		  "nothing moved");
	return MT_PASS;
}

/* Each selected page has got one result. Call while promotion is off. */
int mt_race_balanced(const struct mt_race *r)
{
	long long taken = mt_since(&r->before, "mtier_taken");
	long long ended = mt_ended_since(&r->before);

	MT_ASSERT(ended == taken, "taken %lld, ended %lld", taken, ended);
	return MT_PASS;
}

/* Switch off: pages have moved, the counters add up, and nothing is left. */
int mt_race_end(const struct mt_race *r)
{
	mt_off();
	MT_ASSERT(mt_since(&r->before, "pgpromote_success") > 0,
		  "nothing moved");
	if (mt_race_balanced(r))
		return MT_FAIL;
	MT_ASSERT(MT_WAIT(!mt_kthreads(), 1000) && !mt_read_ll("mms"),
		  "%u threads, %lld slots are left", mt_kthreads(),
		  mt_read_ll("mms"));
	return MT_PASS;
}

/*
 * Memory that is put on the slow node and used, repeatedly; it stays slightly longer each
 * time, so that any host finds it there.
 */
void mt_load_slow(void *arg)
{
	const size_t size = 8 * MT_MB;
	long long ms = 20;

	(void)arg;
	for (;; ms = ms < 1000 ? ms * 5 / 4 : 20) {
		char *p = mt_fill(size, mt_slow_node(), false);
		long long until = mt_now_ms() + ms;

		do
			mt_touch(p, size, true);
		while (mt_now_ms() < until);
		munmap(p, size);
	}
}

/* Memory that is put on the slow node once, and used from then on. */
void mt_load_stays(void *arg)
{
	const size_t size = 8 * MT_MB;
	char *p = mt_fill(size, mt_slow_node(), false);

	(void)arg;
	for (;;)
		mt_touch(p, size, true);
}

/* A child that runs @fn and exits with 0; it dies with its parent. */
pid_t mt_spawn(void (*fn)(void *), void *arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fn(arg);
	_exit(0);
}

/* Exit code of a child, or 128 + signal. */
int mt_reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void mt_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Check for a child that has ended and was not waited for. */
bool mt_zombie(pid_t pid)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       info.si_pid == pid;
}
