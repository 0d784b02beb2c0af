// SPDX-License-Identifier: GPL-2.0
/*
 * The working set of each process, as debugfs and the tracepoint report it. It is near
 * to the memory that the process uses, and begins anew with each program.
 *
 * lab: topology=dram-cxl icount=2 timeout=700s debug=no
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burst_util.h"

#define HEAT		MT_BURST_DIR "heat"
#define SIZE		(64 * MT_MB)
#define USED		(32 * MT_MB)
#define PAGES(size)	((long long)((size) / MT_PAGE))
/*
 * Ranges of 2 MiB that a verdict rests on, half of those there are.  Each second page
 * of all ranges is used, so that few ranges are enough for a good estimate.
 */
#define RANGES		16
#define WAIT_MS		120000
#define EXEC		"BURST_HEAT_EXEC"

/* One line of the file */
struct heat {
	bool found;
	char line[512];
	long long in_use;
	long long present;
	long long looked;
	long long ranges;
	long long error;
};

/* The line of a process in a tier; not found where there is none. */
static struct heat heat_of(pid_t pid, const char *tier)
{
	FILE *f = fopen(HEAT, "re");
	/* mt_field() finds a name behind a blank. */
	struct heat h = { .line = " " };

	while (f && !h.found && fgets(h.line + 1, sizeof(h.line) - 1, f))
		h.found = mt_field(h.line, "pid") == pid &&
			  mt_field_is(h.line, "tier", tier);
	if (f)
		fclose(f);
	if (!h.found)
		return (struct heat) { };
	h.in_use = mt_field(h.line, "in_use");
	h.present = mt_field(h.line, "present");
	h.looked = mt_field(h.line, "looked");
	h.ranges = mt_field(h.line, "ranges");
	h.error = mt_field(h.line, "error");
	return h;
}

static void heat_note(const char *who, const struct heat *h)
{
	mt_note("%s: %s", who, h->found ? h->line : "no line");
}

/* Wait until enough ranges of a process were sampled. */
static bool heat_sampled(pid_t pid)
{
	return MT_WAIT(({ mt_hurry(); heat_of(pid, "slow").ranges >= RANGES; }),
		       WAIT_MS);
}

/* Wait until a sweep has listed an idle process. Nothing of its slow memory is sampled. */
static bool heat_swept(pid_t pid)
{
	return MT_WAIT(({ mt_hurry(); heat_of(pid, "slow").found; }), WAIT_MS);
}

/* Place memory, use half of it over and over if wanted, and write to @ready. */
static void use(bool used, int ready)
{
	char *p = mt_place(SIZE, mt_slow_node());
	struct mt_toucher t = {
		.p = p, .size = SIZE, .step = SIZE / USED * MT_PAGE, .cpu = -1,
	};

	if (!p)
		_exit(1);
	if (used)
		mt_toucher_run(&t);
	if (write(ready, "r", 1) != 1)
		_exit(1);
	close(ready);
	for (;;)
		pause();
}

struct user {
	bool used;
	const char *name;
	int ready[2];
};

static void user_run(void *arg)
{
	struct user *u = arg;

	close(u->ready[0]);
	prctl(PR_SET_NAME, u->name);
	use(u->used, u->ready[1]);
}

/* Start a process that uses half of its memory, or none; 0 if that failed. */
static pid_t user_start(bool used, const char *name)
{
	struct user u = { .used = used, .name = name };
	char c;
	pid_t pid;

	if (pipe(u.ready))
		return 0;
	pid = mt_spawn(user_run, &u);
	close(u.ready[1]);
	if (read(u.ready[0], &c, 1) != 1)
		pid = 0;
	close(u.ready[0]);
	return pid;
}

static int used_memory_is_told_from_idle(void)
{
	pid_t busy = user_start(true, "busy"), idle = user_start(false, "idle");
	struct heat b, i;

	MT_ASSERT(busy && idle, "no memory on the slow node");
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(heat_sampled(busy) && heat_swept(idle), "not sampled");
	/* The first sweep finds in use what was just made. */
	MT_ASSERT(MT_WAIT(!heat_of(idle, "slow").in_use, WAIT_MS), "idle memory is in use");
	b = heat_of(busy, "slow");
	i = heat_of(idle, "slow");
	mt_off();
	heat_note("busy", &b);
	heat_note("idle", &i);
	mt_kill(busy);
	mt_kill(idle);
	MT_ASSERT(b.looked > PAGES(SIZE) / 4, "few pages were looked at");
	MT_ASSERT(b.present > PAGES(48 * MT_MB) && b.present < PAGES(80 * MT_MB),
		  "%lld pages of %lld are there", b.present, PAGES(SIZE));
	MT_ASSERT(b.in_use > PAGES(24 * MT_MB) && b.in_use < PAGES(40 * MT_MB),
		  "%lld pages in use, and %lld are", b.in_use, PAGES(USED));
	MT_ASSERT(!i.in_use, "%lld idle pages in use", i.in_use);
	MT_ASSERT(b.error > 0 && b.error < PAGES(16 * MT_MB), "its error is %lld",
		  b.error);
	MT_ASSERT(mt_field_is(b.line, "comm", "busy\n"), "its name");
	return MT_PASS;
}

/* The program that this one becomes: with memory, and idle. */
static int after_exec(void)
{
	use(false, atoi(getenv(EXEC)));
	return 0;
}

static void exec_on_signal(void *arg)
{
	int *ready = arg;
	struct mt_toucher t = {
		.size = SIZE, .step = SIZE / USED * MT_PAGE, .cpu = -1,
	};
	char fd[16];
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	t.p = mt_place(SIZE, mt_slow_node());
	if (!t.p)
		_exit(1);
	mt_toucher_run(&t);
	if (write(*ready, "r", 1) != 1 || sigwait(&set, &sig))
		_exit(1);
	snprintf(fd, sizeof(fd), "%d", *ready);
	setenv(EXEC, fd, 1);
	execl("/proc/self/exe", "burst_heat", NULL);
	_exit(99);
}

static int exec_begins_anew_and_exit_ends_it(void)
{
	struct heat before, after;
	int ready[2];
	pid_t pid;
	char c;

	MT_ASSERT(!pipe(ready), "pipe");
	pid = mt_spawn(exec_on_signal, &ready[1]);
	MT_ASSERT(read(ready[0], &c, 1) == 1, "no memory on the slow node");
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(heat_sampled(pid), "not sampled before exec");
	before = heat_of(pid, "slow");
	kill(pid, SIGUSR1);
	MT_ASSERT(read(ready[0], &c, 1) == 1, "exec failed");
	MT_ASSERT(heat_swept(pid), "not swept after exec");
	MT_ASSERT(MT_WAIT(!heat_of(pid, "slow").in_use, WAIT_MS),
		  "its memory stays in use");
	after = heat_of(pid, "slow");
	heat_note("before exec", &before);
	heat_note("after exec", &after);
	mt_kill(pid);
	MT_ASSERT(MT_WAIT(!heat_of(pid, "slow").found, 10000),
		  "it has ended, and is still shown");
	mt_off();
	MT_ASSERT(before.in_use > PAGES(USED) / 2, "little was in use before");
	MT_ASSERT(after.in_use < PAGES(3 * MT_MB),
		  "%lld pages of the new program are in use", after.in_use);
	return MT_PASS;
}

/* Count the lines of the file; -1 if one has another form. */
static int heat_lines(void)
{
	FILE *f = fopen(HEAT, "re");
	char line[512];
	int nr = 0;

	if (!f)
		return -1;
	while (nr >= 0 && fgets(line, sizeof(line), f)) {
		const char *begin = nr++ ? "pid=" : "page_bytes=";

		if (strncmp(line, begin, strlen(begin)) || !strchr(line, '\n')) {
			mt_note("a line of '%s'", line);
			nr = -1;
		}
	}
	fclose(f);
	return nr;
}

static int off_forgets(void)
{
	pid_t pid = user_start(true, "was");

	MT_ASSERT(pid, "no memory on the slow node");
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(heat_sampled(pid), "not sampled");
	mt_off();
	MT_ASSERT(heat_lines() == 1, "%d lines while it is off", heat_lines());
	/* On, and too early for samples. */
	mt_set("scan/delay_ms", 3600000);
	mt_on();
	MT_ASSERT(heat_lines() == 1, "%d lines, and nothing was sampled",
		  heat_lines());
	mt_off();
	mt_kill(pid);
	return MT_PASS;
}

static int names_do_not_break_lines(void)
{
	pid_t pid = user_start(false, "a\nb pid=1\\");
	struct heat h;

	MT_ASSERT(pid, "no memory on the slow node");
	if (mt_observe_on())
		return MT_FAIL;
	MT_ASSERT(heat_swept(pid), "not swept");
	h = heat_of(pid, "slow");
	MT_ASSERT(heat_lines() > 1, "%d lines", heat_lines());
	mt_off();
	mt_kill(pid);
	heat_note("it", &h);
	MT_ASSERT(strstr(h.line, "comm=a\\nb pid=1\\\\\n"), "its name");
	return MT_PASS;
}

/* Events of this process, added up */
struct sums {
	long long nr;
	long long looked;
	long long used;
	long long fast;
};

static int read_events(struct sums *sum)
{
	static const char * const fields[] = {
		" tier=", " ranges=", " of=", " looked=", " used=", " window_ns=",
		" present=", " in_use=", " error=", " rss=", " comm=",
	};
	struct mt_trace trace;
	char line[512];
	size_t i;

	MT_ASSERT(!mt_trace_open(&trace, "mtier_heat"), "no event");
	if (mt_bursts_on() || !mt_bursts_pass(2))
		return MT_FAIL;
	mt_off();
	while (mt_trace_line(&trace, line, sizeof(line))) {
		if (mt_field(line, "pid") != getpid())
			continue;
		for (i = 0; i < ARRAY_LEN(fields); i++)
			MT_ASSERT(strstr(line, fields[i]), "no %s in '%s'",
				  fields[i], line);
		if (mt_field_is(line, "tier", "fast")) {
			sum->fast++;
			continue;
		}
		sum->nr++;
		sum->looked += mt_field(line, "looked");
		sum->used += mt_field(line, "used");
	}
	mt_trace_close(&trace);
	return MT_PASS;
}

/* Pages in use move within the burst that finds them. They count as found. */
static int pages_that_move_are_counted_before(void)
{
	char *used = mt_place(16 * MT_MB, mt_slow_node());
	char *idle = mt_place(4 * MT_MB, mt_slow_node());
	struct sums sum = { };
	struct mt_snap before;
	struct mt_toucher t = {
		.p = used, .size = 16 * MT_MB, .step = MT_PAGE, .cpu = -1,
	};
	int ret;

	MT_ASSERT(used && idle, "no memory on the slow node");
	mt_toucher_run(&t);
	mt_snap(&before);
	mt_fast();
	ret = read_events(&sum);
	mt_touch_stop(&t);
	if (ret)
		return ret;
	mt_note("%lld events: %lld of %lld pages in use; %lld pages moved", sum.nr,
		sum.used, sum.looked, mt_since(&before, "pgpromote_success"));
	MT_ASSERT(mt_since(&before, "pgpromote_success") > 1000, "few moved");
	MT_ASSERT(sum.used > 1000, "few were found in use");
	MT_ASSERT(sum.used <= sum.looked, "more in use than looked at");
	/* The fast tier has room for all of it. */
	MT_ASSERT(!sum.fast, "%lld events of the fast tier", sum.fast);
	return MT_PASS;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void come_and_go(void *arg)
{
	(void)arg;
	for (;;)
		mt_reap(mt_spawn(nothing, NULL));
}

static void read_on(void *arg)
{
	(void)arg;
	for (;;)
		if (heat_lines() < 1)
			_exit(1);
}

/* Readers, exits and the switch at once. */
static int readers_meet_exits_and_the_switch(void)
{
	pid_t forks[2], readers[2];
	long long until = mt_now_ms() + 5000 * terrace_stretch();
	int i, rounds = 0;

	for (i = 0; i < 2; i++) {
		forks[i] = mt_spawn(come_and_go, NULL);
		readers[i] = mt_spawn(read_on, NULL);
	}
	mt_set("scan/delay_ms", 0);
	while (mt_now_ms() < until) {
		mt_on();
		mt_nap(30);
		mt_off();
		rounds++;
	}
	mt_note("%d times on and off", rounds);
	for (i = 0; i < 2; i++) {
		MT_ASSERT(!waitpid(readers[i], NULL, WNOHANG), "a reader has failed");
		mt_kill(forks[i]);
		mt_kill(readers[i]);
	}
	MT_ASSERT(rounds > 3, "few rounds");
	return MT_PASS;
}

static int only_root_reads_it(void)
{
	struct stat st;

	MT_ASSERT(!stat(HEAT, &st), "no file");
	MT_ASSERT((st.st_mode & 0777) == 0400, "its mode is %o", st.st_mode & 0777);
	return MT_PASS;
}

int main(void)
{
	static const struct mt_check checks[] = {
		MT_CHECK("a process that uses half of its memory is told from an idle one",
			 used_memory_is_told_from_idle),
		MT_CHECK("exec begins anew, and exit ends it",
			 exec_begins_anew_and_exit_ends_it),
		MT_CHECK("switching off forgets all", off_forgets),
		MT_CHECK("names do not break lines", names_do_not_break_lines),
		MT_CHECK("pages that move are counted before they do",
			 pages_that_move_are_counted_before),
		MT_CHECK("readers meet exits and the switch",
			 readers_meet_exits_and_the_switch),
		MT_CHECK("only root reads it", only_root_reads_it),
	};

	if (getenv(EXEC))
		return after_exec();
	return mt_main(checks, ARRAY_LEN(checks));
}
